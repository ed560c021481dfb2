import csv
from types import SimpleNamespace

import pytest
import torch

from qualm.runners.training.training_log import log_callback


class Module:
    def __init__(self):
        self.modes, self.logged = [], {}

    def log_dict(self, values):
        self.logged.update(values)

    def eval(self):
        self.modes.append("eval")

    def train(self):
        self.modes.append("train")


def run(tmp_path, losses, every=2, steps=None, log=None, accumulate=1):
    recipe = SimpleNamespace(steps=steps or len(losses) // accumulate, evaluate=lambda: {"heldout": 0.123456789})
    log = log or log_callback()(recipe, tmp_path / "log.csv", advance=lambda n=1: None, every=every)
    trainer = SimpleNamespace(global_step=0, is_global_zero=True, callback_metrics={})
    module = Module()
    log.on_train_start(trainer, module)
    for i, loss in enumerate(losses, 1):
        trainer.callback_metrics = {"loss": torch.tensor(loss), "rate": torch.tensor(0.000123456)}
        trainer.global_step = i // accumulate
        log.on_train_batch_end(trainer, module, None, None, i)
    with (tmp_path / "log.csv").open() as file:
        return list(csv.DictReader(file)), log, module


def test_rows_are_means_over_their_steps(tmp_path):
    rows, _, module = run(tmp_path, [1.0, 3.0, 5.0, 6.0, 7.123456])
    assert [(r["step"], float(r["loss"])) for r in rows] == [("2", 2.0), ("4", 5.5), ("5", 7.12346)]
    assert [r["heldout"] for r in rows] == ["", "", "0.12346"] and rows[0]["rate"] == "0.0001235" and module.modes == ["eval", "train"]


def test_batches_whose_gradients_add_up_are_one_step(tmp_path):
    rows, *_ = run(tmp_path, [1.0, 3.0, 5.0, 7.0], every=1, accumulate=2)
    assert [(r["step"], float(r["loss"])) for r in rows] == [("1", 2.0), ("2", 6.0)]


def test_every_fifth_row_is_evaluated(tmp_path):
    rows, *_ = run(tmp_path, [1.0] * 7, every=1, steps=100)
    assert [i for i, r in enumerate(rows) if r["heldout"]] == [4]


def test_it_goes_on_after_a_kill_as_if_nothing_had_been(tmp_path):
    _, log, _ = run(tmp_path, [1.0, 3.0, 5.0], steps=4)
    again = log_callback()(log.recipe, tmp_path / "log.csv", advance=lambda n=1: None, every=2)
    again.load_state_dict(log.state_dict())
    trainer = SimpleNamespace(global_step=3, is_global_zero=True, callback_metrics={"loss": torch.tensor(7.0)})
    again.on_train_start(trainer, Module())
    trainer.global_step = 4
    again.on_train_batch_end(trainer, Module(), None, None, 4)
    assert [row["loss"] for row in again.rows] == pytest.approx([2.0, 6.0])
