"""Studies in which models are alike, or differ by a known amount: what is drawn, and what the tests of a study make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.evaluate import Metric, Slice, read_metrics
from qualm.runners.scoring.families import Family
from qualm.runners.scoring.paired_tests import compare
from qualm.runners.stages.score import make_slices

METRICS = ("accuracy", "ece", "confidence_weighted_accuracy")
"""Of the family of 60 tests."""


def metrics(*names: str) -> list[Metric]:
    return read_metrics([{"label": name, "plugin": name, "args": {"rows": "all"} if name == "ece" else {}} for name in names])


def samples(n: int, groups: int, kinds: int) -> Samples:
    """Questions in groups of equal size, each group of one kind."""
    rows = [
        {"sample_id": f"s{i}", "question": "?", "answerable": True, "group": f"g{i % groups}", "category": f"k{i % groups % kinds}"}
        for i in range(n)
    ]
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def model(of: Samples, rng: np.random.Generator, difficulty: NDArray[np.float64], gain: float = 0.0) -> Cell:
    """Answers whose chance to be right is the group's, and higher by `gain`; confidence says half of it."""
    chance = np.clip(difficulty[of.groups] + gain, 0, 1)
    correct = (rng.random(of.n) < chance).astype(np.float64)
    confidence = np.clip((chance + rng.random(of.n)) / 2, 0, 1)
    answered = {"correct": correct, "confidence": confidence, "pred_is_idk": np.zeros(of.n), "gt_is_idk": np.zeros(of.n)}
    return Cell("m", of, "clean", {**answered, "answerable": np.ones(of.n)}, {}, {})


def study(of: Samples, a: Cell, b: Cell, named: Sequence[Metric], permutations: int) -> list[tuple[dict[str, Any], Any]]:
    """Every metric on every slice, with the evidence of each test."""
    tests = []
    for part in slices(of):
        for test in compare(named, a, b, part, 0.95, permutations, 7):
            tests.append(({"dataset": "d", "slice": part.label, "metric": test.metric}, test.evidence))
    return tests


def slices(of: Samples) -> list[Slice]:
    """The values of the questions' kind, without all together."""
    return [part for part in make_slices(of, ["category"], 2, 7) if part.label != "all"]


def least(tests: Sequence[tuple[dict[str, Any], Any]], correction: str, span: str) -> float:
    """The smallest corrected p-value."""
    family = Family(correction, span)
    for row, evidence in tests:
        family.add(dict(row), evidence)
    family.correct()
    return min((row["p_adjusted"] for row, _ in family.rows if row["p_adjusted"] is not None), default=1.0)
