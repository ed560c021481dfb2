"""Fine-tuning in processes of its own: kill -9 in the middle, several devices, a full disk. What comes out is the same."""

import csv
import io
import time
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file

from qualm.registry.system import atomic
from qualm.runners.runtime.stage import StageError
from tests.support.models.tiny_models import tiny_llava
from tests.support.processes.forks import forks
from tests.support.processes.waiting import TIMEOUT, wait_until
from tests.support.projects.tiny_tuning import LORA, SFT, Tuning

STEPS = 60
ARGS = {**SFT, "steps": STEPS, "tune": {**LORA, "args": {**LORA["args"], "dropout": 0.1}}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("model"))


def make(folder, model, **changes):
    project = Tuning(folder, model)
    project.stage("sft", {**ARGS, **changes})
    return project


def finish(process):
    out, err = process.communicate(timeout=2 * TIMEOUT)
    assert process.returncode == 0, err
    return out


def losses(project):
    return [float(row["loss"]) for row in csv.DictReader(io.StringIO(project.log()))]


def weights(project):
    return load_file(project.model() / "adapter_model.safetensors")


def kept_at(project):
    """Those that are there, each with when it was written; the run replaces them meanwhile."""
    some = set()
    for path in project.folder.rglob("last.ckpt"):
        with suppress(FileNotFoundError):
            some.add((path, path.stat().st_mtime_ns))
    return some


@pytest.mark.slow
def test_kill_9_in_the_middle_changes_nothing(tmp_path, model):
    whole = make(tmp_path / "whole", model)
    finish(whole.fork(QUALM_CHECKPOINT_EVERY="7"))
    killed = make(tmp_path / "killed", model)
    for _ in range(2):
        process = killed.fork(QUALM_CHECKPOINT_EVERY="7")
        before = kept_at(killed)
        keeps_another = lambda run=process, before=before: run.poll() is not None or kept_at(killed) - before  # noqa: E731
        wait_until(keeps_another, "another checkpoint", every=0.005)
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
        process.kill()
        process.wait()
    assert not killed.model().exists()
    finish(killed.fork(QUALM_CHECKPOINT_EVERY="7"))
    assert killed.log() == whole.log() and len(losses(whole)) == STEPS // 3
    one, two = weights(whole), weights(killed)
    assert one.keys() == two.keys() and all(one[k].equal(two[k]) for k in one)


SMALL = {"steps": None, "epochs": 3.0, "batch": 5, "tune": LORA, "schedule": "linear"}


@pytest.fixture(scope="module")
def usual(tmp_path_factory, model):
    project = make(tmp_path_factory.mktemp("usual") / "project", model, **SMALL)
    finish(project.fork())
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [lambda p: p.start(QUALM_DEVICES="2", QUALM_STRATEGY="ddp"), lambda p: p.fork(QUALM_MICRO_BATCH="2")],
    ids=["two devices", "micro-batches"],
)  # fmt: skip
def test_devices_and_micro_batches_give_the_same_curve(tmp_path, model, usual, start):
    """Two gloo processes, or gradients added up over parts of a batch; 27 examples do not divide evenly into either."""
    shared = make(tmp_path / "shared", model, **SMALL)
    out = finish(start(shared))
    assert out.count("t/tuned: ") == 1  # one process speaks and publishes
    # Rounding: a divided batch is read in other passes, and steps add the differences up (equal in double precision, see test_sft).
    assert losses(shared) == pytest.approx(losses(usual), rel=1e-4, abs=2e-5)
    one, two = weights(usual), weights(shared)
    # AdamW takes a step of its full rate (.01) where a gradient is next to nothing, whichever way rounding turns it.
    assert max(float((one[k] - two[k]).abs().max()) for k in one) < 1e-2 * max(float(one[k].abs().max()) for k in one)


@pytest.mark.slow
def test_under_torchrun_the_base_model_is_asked_once(tmp_path, model):
    """R-tuning on two processes that start together: the second waits for the first one's answers."""
    args = {"base": "base", "train": ["pairs"], "tune": LORA, "batch": 6, "steps": 4}
    project, usual = Tuning(tmp_path / "two", model), Tuning(tmp_path / "one", model)
    for each in (project, usual):
        each.stage("rtune", args)
    usual.run()
    two = forks().start(
        "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29571", "-m", "qualm.runners", "t/tuned",
        folder=project.folder, environment=project.environment(QUALM_DEVICES="2"),
    )  # fmt: skip
    assert finish(two).count("28 answers computed") == 1
    assert losses(project) == pytest.approx(losses(usual), abs=2e-5)


@pytest.mark.slow
def test_a_full_disk_keeps_the_checkpoint_before(tmp_path, model, monkeypatch):
    """The second checkpoint finds no room (its place is /dev/full); the first stays, and the run goes on from it."""
    project = make(tmp_path, model, steps=5)
    whole = make(tmp_path / "whole", model, steps=5)
    whole.run(checkpoint_every=2)
    calls = []
    real = atomic.partial_path

    def second_is_full(path):
        calls.append(path)
        partial = real(path)
        if len(calls) == 2:
            partial.symlink_to("/dev/full")
        return partial

    with monkeypatch.context() as patch, pytest.raises(StageError, match=r"the disk is full; make room .*goes on from its last checkpoint"):
        patch.setattr(atomic, "partial_path", second_is_full)
        project.run(checkpoint_every=2)
    (last,) = project.folder.glob(".qualm/**/last.ckpt")
    assert torch.load(last, weights_only=True)["global_step"] == 2
    project.run(checkpoint_every=2)
    assert project.log() == whole.log()


def test_curves_for_tensorboard_lie_in_the_local_folder(tmp_path, model):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    project = make(tmp_path, model, steps=4)
    project.run()
    events = event_accumulator.EventAccumulator(str(tmp_path / ".qualm/tensorboard/t/tuned"))
    events.Reload()
    assert {"loss", "rate"} <= set(events.Tags()["scalars"])
    assert "events" not in {p.name for p in project.model().iterdir()}


def test_checkpoints_hold_what_is_trained_alone(tmp_path, model, monkeypatch):
    kept, save = [], torch.save
    monkeypatch.setattr(torch, "save", lambda checkpoint, file: (kept.append(checkpoint["state_dict"]), save(checkpoint, file)))
    make(tmp_path, model, steps=4).run(checkpoint_every=2)
    assert len(kept) == 2 and kept[0] and all(".lora_" in name for state in kept for name in state)


def test_gradient_checkpointing_changes_no_number(tmp_path, model):
    usual, saving = make(tmp_path / "usual", model, steps=3), make(tmp_path / "saving", model, steps=3)
    usual.run()
    saving.run(gradient_checkpointing=True)
    assert losses(saving) == pytest.approx(losses(usual), abs=1e-5)
