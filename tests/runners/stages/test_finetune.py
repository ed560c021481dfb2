"""The shared trainer, on the smallest recipe there is: a linear layer. A kill in the middle must change nothing."""

import csv
import dataclasses
from contextlib import suppress

import lightning as L
import pytest
import torch

import qualm.runners.stages.finetune as finetune
from qualm.runners.contracts.finetunes import FinetuneError, TrainingRecipe
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.training import trainer
from qualm.runners.training.trainer import checkpoint_plugins, count_micro_batches


class Line(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = (self.layer(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.log("loss", loss.detach())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


def batch(step):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step))


class Killed(Exception):
    pass


def recipe(killed_at=None, asked=None):
    line = Line()

    def batches(step):
        if asked is not None:
            asked.append(step)
        if step == killed_at:
            raise Killed
        return batch(step)

    def save(folder, state):
        torch.save(state, folder / "model.pt")

    return TrainingRecipe(line, batches, 25, save, lambda: {"heldout/x": 0.5})


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trainer, "LEG", 10)
    params = {"name": "line", "plugin": "scratch_vlm", "args": {}, "max_new_tokens": 8}
    outputs = {"model": "results/s/models/line", "log": "results/s/training/line.csv"}
    return Stage(
        "s/line", "s", "line", "finetune", params, {"datasets": {}}, outputs, 7, Settings(device="cpu", progress=False, checkpoint_every=10)
    )


def train(stage, monkeypatch, **arguments):
    made = recipe(**arguments)
    monkeypatch.setattr(finetune, "load", lambda kind, name: lambda context, **_: made)
    finetune.run(stage)
    return {k: v.clone() for k, v in made.module.state_dict().items()}


def test_small_models_are_trained_by_one_thread_whatever_there_are(stage, monkeypatch):
    used = []
    monkeypatch.setattr(Line, "on_train_start", lambda self: used.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        train(stage, monkeypatch)
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(trainer, "SMALL", 1)
        train(stage, monkeypatch)
    finally:
        torch.set_num_threads(before)
    assert used == [1, 2]


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(stage, monkeypatch, tmp_path):
    whole = train(stage, monkeypatch)
    log = (tmp_path / "results/s/training/line.csv").read_text()
    with pytest.raises(Killed):
        train(stage, monkeypatch, killed_at=17)
    asked = []
    resumed = train(stage, monkeypatch, asked=asked)
    assert asked == list(range(10, 25))
    assert all(torch.equal(whole[k], resumed[k]) for k in whole)
    assert (tmp_path / "results/s/training/line.csv").read_text() == log


def test_log_and_model_are_published(stage, monkeypatch, tmp_path):
    train(stage, monkeypatch)
    rows = list(csv.DictReader((tmp_path / "results/s/training/line.csv").open()))
    assert [int(r["step"]) for r in rows] == [10, 20, 25]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert rows[-1]["heldout/x"] == "0.5"
    assert (tmp_path / "results/s/models/line/model.pt").is_file()
    assert stage.counters == {"steps": 25, "parameters": 5, "trained": 5}
    assert not any(p.is_dir() for p in stage.scratch.iterdir())


def test_what_transformers_saves_shows_no_bar_of_its_own(stage, monkeypatch, capfd):
    from transformers import GPT2Config, GPT2Model
    from transformers.utils import logging

    network = GPT2Model(GPT2Config(vocab_size=8, n_positions=8, n_embd=4, n_layer=1, n_head=1))
    made = dataclasses.replace(recipe(), save=lambda folder, state: network.save_pretrained(folder))
    monkeypatch.setattr(finetune, "load", lambda kind, name: lambda context, **_: made)
    logging.enable_progress_bar()
    finetune.run(stage)
    assert "shards" not in capfd.readouterr().err


def test_a_checkpoint_of_other_parameters_is_not_used(stage, monkeypatch):
    with pytest.raises(Killed):
        train(stage, monkeypatch, killed_at=17)
    stage.params = {**stage.params, "args": {"rate": 1.0}}
    asked = []
    train(stage, monkeypatch, asked=asked)
    assert asked[0] == 0


@pytest.mark.parametrize(("micro", "devices", "pieces"), [(0, 3, 1), (4, 3, 1), (3, 3, 2), (2, 3, 2), (1, 3, 4), (3, 1, 4), (10, 1, 1)])
def test_a_device_divides_its_share_of_ten_into_pieces_that_fit(micro, devices, pieces):
    shared = dataclasses.replace(recipe(), share=lambda step, part, parts: {}, batch_size=10)
    assert count_micro_batches(shared, Settings(micro_batch=micro), devices) == pieces


def test_a_recipe_without_shares_is_for_one_device():
    alone = dataclasses.replace(recipe(), share=None)
    assert count_micro_batches(alone, Settings(micro_batch=1), 1) == 1
    with pytest.raises(FinetuneError, match="this recipe trains on one device, but the settings say 2; set QUALM_DEVICES=1"):
        count_micro_batches(alone, Settings(), 2)


def test_a_recipe_s_error_is_the_stage_s(stage, monkeypatch):
    def fails(context, **_):
        raise FinetuneError("no scenes here")

    monkeypatch.setattr(finetune, "load", lambda kind, name: fails)
    with pytest.raises(StageError, match="no scenes here"):
        finetune.run(stage)


def test_a_checkpoint_is_whole_and_nothing_lies_beside_it(tmp_path):
    (plugin,) = checkpoint_plugins("auto")
    path = tmp_path / "new" / "last.ckpt"
    plugin.save_checkpoint({"step": 3, "weights": torch.ones(2)}, path)
    assert torch.load(path, weights_only=True)["step"] == 3 and [p.name for p in path.parent.iterdir()] == ["last.ckpt"]


def test_a_failure_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    (plugin,) = checkpoint_plugins("ddp")
    path = tmp_path / "last.ckpt"
    plugin.save_checkpoint({"step": 1}, path)

    def full(checkpoint, handle):
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        plugin.save_checkpoint({"step": 2}, path)
    assert torch.load(path, weights_only=True) == {"step": 1} and list(tmp_path.iterdir()) == [path]


def test_a_kill_while_it_is_written_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    (plugin,) = checkpoint_plugins("ddp")
    path = tmp_path / "last.ckpt"
    plugin.save_checkpoint({"step": 1}, path)
    written = []
    monkeypatch.setattr(torch, "save", lambda checkpoint, handle: written.append(handle.name) or (_ for _ in ()).throw(KeyboardInterrupt))
    with suppress(KeyboardInterrupt):
        plugin.save_checkpoint({"step": 2}, path)
    assert written and written != [str(path)] and torch.load(path, weights_only=True) == {"step": 1}


def test_deepspeed_writes_its_own():
    assert checkpoint_plugins("deepspeed_stage_2") == []
