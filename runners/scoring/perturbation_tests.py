"""Tests of a perturbation's effect: every model, variant and estimator of the grid.

A metric's file says what its value is tested against (`TEST`):

- `exchange`: its value with each sample's clean and perturbed answers exchanged, which is the same if the perturbation does nothing.
- `independence`: a correlation of 0.

The test is that of two models (`qualm.runners.scoring.paired_tests`). The grid's p-values are then corrected together, as `compare:` says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qualm.registry.plugins import registry
from qualm.runners.scoring import paired_tests
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.families import Evidence
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.measured import Measured, Slice, or_null
from qualm.runners.scoring.measuring.metrics import Metric

EXCHANGE, INDEPENDENCE = "exchange", "independence"


@dataclass(frozen=True)
class Effect:
    """Test of a perturbation's effect on one metric, in one cell and slice."""

    metric: str
    value: float
    reference: float
    """Expected value without an effect: with clean and perturbed exchanged, or a correlation of 0."""
    p: float
    evidence: Evidence = field(default=Evidence(np.nan), repr=False, compare=False)


def metrics_with_effect_test(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics whose plugins declare a test of a perturbation's effect, in order."""
    return [m for m in metrics if _test_of(m) is not None]


def is_of_correlation(metric: Metric) -> bool:
    """Return whether the metric is tested against a correlation of 0."""
    return _test_of(metric) == INDEPENDENCE


def effects(metrics: Sequence[Metric], cell: Cell, data_slice: Slice) -> Iterator[Effect]:
    """Yield an Effect per tested metric label of a perturbed cell; `p` is NaN without a test."""
    by_exchange = [m for m in metrics if _test_of(m) == EXCHANGE]
    for test in paired_tests.compare(by_exchange, _exchange_answers(cell), cell, data_slice, 0.95):
        yield Effect(test.metric, test.value_b, test.value_a, test.p, test.evidence)
    for label, measured in evaluate([m for m in metrics if _test_of(m) == INDEPENDENCE], cell, data_slice):
        groups = data_slice.bootstrap.groups if measured.groups is None else measured.groups
        units = float(groups) if measured.units is None else measured.units
        found = paired_tests.PairedDifference(measured.value, measured.resampled, measured.deleted, groups, units)
        p = np.nan if found.why_no_test else found.p
        yield Effect(label, measured.value, 0.0, p, Evidence(p) if np.isnan(p) else Evidence(p, found.draws))


def effect_rows(
    metrics: Sequence[Metric], cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]]
) -> Iterator[tuple[dict[str, Any], Evidence]]:
    """Yield (row of EFFECTS, its evidence) for each test of a perturbed cell and slice."""
    counts = {label: measured.n for label, measured in values}
    for effect in effects(metrics, cell, part):
        numbers = {name: or_null(getattr(effect, name)) for name in ("value", "reference", "p")}
        yield cell.place | {"slice": part.label, "metric": effect.metric, "n": counts[effect.metric]} | numbers, effect.evidence


def _exchange_answers(cell: Cell) -> Cell:
    """Return a copy of the cell with its clean and perturbed answers exchanged."""
    columns = cell.columns | {"correct": cell.columns["clean_correct"], "clean_correct": cell.columns["correct"]}
    return replace(cell, columns=columns, uncertainties=cell.clean_uncertainties, clean_uncertainties=cell.uncertainties)


def _test_of(metric: Metric) -> str | None:
    name = registry.get("metrics", metric.function.__name__).declares.get("test")
    return None if name is None else str(name)
