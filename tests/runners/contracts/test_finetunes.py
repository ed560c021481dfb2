from pathlib import Path

import pytest

from qualm.runners.contracts import finetunes
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage


def test_what_the_stage_was_not_given_is_refused_with_what_it_was():
    context = FinetuneContext({"b": Path("b"), "a": Path("a")}, 7)
    assert context.dataset("b") == Path("b")
    with pytest.raises(FinetuneError, match="dataset 'c' is not among this stage's inputs: a, b"):
        context.dataset("c")
    with pytest.raises(FinetuneError, match="model 'm' is not among this stage's inputs: none"):
        context.model("m")


def test_a_model_gets_its_folder_and_arguments(monkeypatch):
    monkeypatch.setattr(finetunes, "load", lambda kind, name: lambda context, **args: (kind, name, context.label, context.folder, args))
    context = FinetuneContext({}, 7, {"base": {"plugin": "hf_vlm", "args": {"x": 1}}}, {"base": Path("f")})
    assert context.model("base") == ("models", "hf_vlm", "base", Path("f"), {"x": 1})


def test_outside_of_a_stage_settings_are_the_default_and_counting_does_nothing():
    context = FinetuneContext({}, 7)
    context.count(dropped=1)
    assert context.settings == Settings()


def test_within_a_stage_its_counters_and_settings_are_used():
    stage = Stage("s/f", "s", "finetune", "f", {}, {}, {}, 7, Settings(batch_size=3))
    context = FinetuneContext({}, 7, stage=stage)
    context.count(dropped=2)
    context.count(dropped=3)
    assert context.settings.batch_size == 3 and stage.counters["dropped"] == 5
