"""What stages are told by default stays as it was, so that no finished stage runs again after an upgrade."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from qualm.compiler.plan.make import make_plan
from qualm.compiler.resolve.resolve import resolve_file
from qualm.compiler.spec import language
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.language import RunWide
from qualm.registry.plugins import rule
from qualm.registry.plugins.rule import Parameter, Since
from tests.compiler.resolve.resolving import change, resolve
from tests.support.checks.golden_parameters import BOUNDS, COMMAND, bounds, computed, faults, kept
from tests.support.checks.held_numbers import held


def test_no_new_parameter_makes_finished_stages_run_again():
    before, now = kept(), computed()
    wrong = list(faults(before, now))
    assert not wrong, "\n".join(wrong)
    assert before == now, f"out of step: run `{COMMAND}`"


def test_no_bound_of_a_number_moves_unseen():
    now = bounds()
    assert now == json.loads(BOUNDS.read_text(encoding="utf-8")), f"if bounds were meant to move, run `{COMMAND}`"
    hand = {"Conformal.alpha": ["> 0", "< 1"] * 2, "Inference.draws": ["> 0", "<= 1000"], "metrics/nll.floor": [">= 0", "< 0.5"]}
    assert {name: now[name] for name in hand} == hand and now["finetunes/dpo.steps"] == [">= 1"]


@pytest.mark.parametrize("kind", rule.KINDS)
def test_nothing_that_plugins_declare_moves_unseen(kind):
    """After a change that is meant: HELD=write pytest tests/test_golden_parameters.py."""
    plugins = {plugin.name: dict(plugin.declares) for plugin in sorted(rule.every(kind), key=lambda plugin: plugin.name)}
    for constants in plugins.values():
        constants.pop("CITES", None)
        constants |= {name: sorted(of, key=str) for name, of in constants.items() if isinstance(of, set | frozenset)}
    held("declarations.json", kind, {name: constants for name, constants in plugins.items() if constants})


ROOT = Path(__file__).parents[1]
SFT = "finetunes/sft"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"new": {"default": 0}}, "finetunes/sft: `new` is new: every finished stage with finetunes/sft would run again. If its default"),
        ({"new": {"default": 0, "since": "0.2.0"}}, None),
        ({"new": {}}, None),
        ({"packed": {"default": False, "since": "0.2.0"}}, "`packed` was there before without the mark `Since`"),
        ({"later": {"default": 2, "since": "0.1.0"}}, "`later` has another default: stages that were told nothing had the old one"),
        ({"later": {"default": 2}}, None),
        ({"later": {"default": 1}}, None),
        ({"packed": {"default": True}}, None),
    ],
)
def test_what_is_refused(change, fault):
    before = copy.deepcopy(kept())
    before[SFT]["parameters"]["later"] = {"default": 1, "since": "0.1.0"}
    now = copy.deepcopy(before)
    now[SFT]["parameters"] |= change
    found = list(faults(before, now))
    assert len(found) == (fault is not None) and all(fault in one for one in found)


def test_a_raised_version_runs_them_again_anyway():
    now = copy.deepcopy(kept())
    now[SFT]["parameters"]["new"] = {"default": 0}
    now[SFT]["version"] += 1
    assert not list(faults(kept(), now))


def test_a_section_of_a_spec_is_held_too():
    now = copy.deepcopy(kept())
    now["Inference"]["parameters"]["new"] = {"default": 0}
    (fault,) = faults(kept(), now)
    assert fault.startswith("Inference: `new` is new")


def every_stage(spec: str) -> str:
    plan = make_plan(resolve_file(ROOT / f"specs/{spec}.yaml", ROOT, RunWide(default="quickstart")), ROOT)
    return "\n".join(canonical(stage.as_json()) for stage in plan.stages)


@pytest.mark.parametrize("spec", ["quickstart", "scene_clip", "uncertainty_scenes", "certainly_uncertain", "vlm_uqbench"])
def test_no_stage_is_told_of_a_parameter_that_came_later(spec, monkeypatch):
    """Every plugin of every kind gets one: fine-tunes, adapters, what loads a tuned model, plugins that others name."""
    before, read = every_stage(spec), rule._read
    later = Parameter("later", float, 0.5, "float", since="0.2.0")
    monkeypatch.setattr(rule, "_read", lambda *args: replace(read(*args), parameters=(*read(*args).parameters, later)))
    assert every_stage(spec) == before
    unmarked = replace(later, since="")
    monkeypatch.setattr(rule, "_read", lambda *args: replace(read(*args), parameters=(*read(*args).parameters, unmarked)))
    assert every_stage(spec).count('"later": 0.5') >= 3


def test_it_is_told_where_it_is_set(tmp_path, monkeypatch):
    read, later = rule._read, Parameter("later", float, 0.5, "float", since="0.2.0")
    monkeypatch.setattr(rule, "_read", lambda *args: replace(read(*args), parameters=(*read(*args).parameters, later)))
    text = change("blur: {radius: [2, 6]}", "blur: {radius: 2, later: [0.5, 0.7]}")
    assert [(p.label, p.args) for p in resolve(tmp_path, text).perturbations] == [
        ("blur@radius=2,later=0.5", {"radius": 2.0, "relative": False}),
        ("blur@radius=2,later=0.7", {"radius": 2.0, "relative": False, "later": 0.7}),
    ]


def test_a_key_of_a_section_that_came_later_is_dumped_where_it_is_set():
    class Later(language.Inference):
        ties: Annotated[bool, Since("0.2.0")] = Field(False, description="...")
        again: Annotated[list[str], Since("0.2.0")] = Field([])

    assert Later().model_dump() == language.Inference().model_dump()
    assert Later(ties=True).model_dump(include={"ties", "again", "draws"}) == {"ties": True, "draws": 10}
