from pathlib import Path

import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.models import ModelError
from qualm.runners.data.dataset import Variant
from qualm.runners.plugins.exports._parts import ExportPart
from qualm.runners.plugins.exports._prompts import prompts
from qualm.runners.plugins.models import recorded
from qualm.runners.runtime.records import write_table


def part(folder, **changes):
    return ExportPart(
        **{"model": "m", "dataset": "d", "variant": Variant("clean"), "seed": 7, "samples": folder, "generations": folder, **changes}
    )


class Log:
    def prompts(self, dataset, samples):
        return {"s": f"prompt of {dataset}, {samples.num_rows} samples"}


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path / "samples.parquet", [], SAMPLES)
    return tmp_path


def test_prompts_are_the_logs_own(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(recorded, "recorded", lambda context, **args: opened.append((context.folder, args)) or Log())
    assert prompts(part(folder, recorded={"run": "x"}, source=folder)) == {"s": "prompt of d, 0 samples"}
    assert opened == [(folder, {"run": "x"})]


def test_there_are_none_of_a_model_that_was_asked_here_or_a_log_that_is_gone_or_keeps_none(folder, monkeypatch):
    monkeypatch.setattr(recorded, "recorded", lambda context, **args: object())
    gone = part(folder, recorded={}, source=Path("gone"))
    assert [prompts(p) for p in (part(folder), part(folder, recorded={}), gone, part(folder, recorded={}, source=folder))] == [{}] * 4


def test_a_log_that_cannot_be_read_keeps_none(folder, monkeypatch):
    def fails(context, **args):
        raise ModelError("broken")

    monkeypatch.setattr(recorded, "recorded", fails)
    assert prompts(part(folder, recorded={}, source=folder)) == {}
