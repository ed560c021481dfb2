"""What a spec with everything in it is planned as, and what is said of the same spec with mistakes, held to tests/golden/plans.json.

After a change that is meant: HELD=write pytest tests/compiler/test_golden_plans.py
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from tests.compiler.every_spec import EVERYTHING, root
from tests.compiler.test_mutations import of_text, of_values
from tests.support.checks.held_numbers import held

__all__ = ["root"]
CASES = 24
WHOLE = ("everything.yaml", "quickstart.yaml", "certainly_uncertain.yaml", "vlm_uqbench.yaml", "attribution_scenes.yaml")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=list).encode()).hexdigest()[:10]


def without_sentences(value: Any) -> Any:
    """Words that plugins and cards are described by may be bettered; they stand in what the report is told."""
    if isinstance(value, dict):
        return {key: without_sentences(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [without_sentences(of) for of in value]
    return "..." if isinstance(value, str) and len(value) > 50 else value


def of_stage(stage: PlannedStage) -> list[str]:
    """What it is told, reads and writes, in the order of files; what implements it is not of the spec."""
    told = (
        [without_sentences(stage.params), stage.seed],
        [stage.inputs, list(stage.inputs)],
        [stage.outputs, list(stage.outputs), sorted(stage.folders)],
    )
    return [stage.kind, stage.desc, *map(digest, told)]


@pytest.mark.parametrize("name", WHOLE)
def test_a_sound_spec_is_planned_as_ever(root: Path, name: str) -> None:
    plan = make_plan(resolve_file(root / "specs" / name, root, RunWide(default="t")))
    every = {stage.name: of_stage(stage) for stage in plan.stages}
    held("plans.json", name, {"title": plan.title, "order": list(every), "artifacts": dict(plan.artifacts), "stages": every})


@pytest.mark.parametrize("mutate", [of_text, of_values])
def test_mistakes_are_told_as_ever(root: Path, mutate: Callable[[str, random.Random], str]) -> None:
    path, shown = root / "specs" / "everything.yaml", {}
    for case in range(CASES):
        path.write_text(mutate(EVERYTHING, random.Random(f"{mutate.__name__}/{case}")), encoding="utf-8")
        try:
            plan = make_plan(resolve_file(path, root, RunWide(default="t")))
            shown[str(case)] = ["sound", len(plan.stages), digest([of_stage(stage) for stage in plan.stages])]
        except SpecError as error:
            shown[str(case)] = [str(problem).replace(str(root), "~")[:240] for problem in error.problems]
    path.write_text(EVERYTHING, encoding="utf-8")
    held("plans.json", mutate.__name__, shown)
