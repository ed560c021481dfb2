"""One metric on one cell and slice: its value, its bootstrap interval, and how many rows it is over.

How often a metric is evaluated follows from the columns it reads; see `runners/metrics/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry import plugins
from runners.cells import CHOICE_ONLY, OPEN_ONLY, SET_COLUMNS, Cell
from runners.frames import Floats
from runners.resampling import Bootstrap, ones
from runners.stage import StageError

MEAN = "mean"
"""Stands for the mean over a setting's scores in a metric's label."""


@dataclass(frozen=True)
class Metric:
    """A metric as the spec asks for it."""

    label: str
    reads: tuple[str, ...]
    """Its columns, `weights` left out."""
    function: Callable[..., Floats]
    args: dict[str, Any]

    @property
    def of_test_rows(self) -> bool:
        return "is_calibration" in self.reads and self.args.get("rows") != "all"


def read_metrics(refs: Sequence[dict[str, Any]]) -> list[Metric]:
    """Load the metric plugins of a stage and check what they read."""
    known = {"correct", "confidence", "is_calibration", "uncertainty"} | CHOICE_ONLY | OPEN_ONLY
    found = []
    for ref in refs:
        plugin = plugins.get("metrics", ref["plugin"])
        if not plugin.reads or plugin.reads[-1] != "weights" or not set(plugin.reads[:-1]) <= known:
            raise StageError(
                f"{plugin.path}: {plugin.name} reads {', '.join(plugin.reads) or 'nothing'}; expected columns of "
                f"{', '.join(sorted(known))}, then weights"
            )
        found.append(Metric(ref["label"], plugin.reads[:-1], plugins.load("metrics", ref["plugin"]), ref["args"]))
    return found


@dataclass(frozen=True)
class Slice:
    """Some rows of a dataset, and their resamples."""

    label: str
    rows: NDArray[np.int64]
    bootstrap: Bootstrap


@dataclass(frozen=True)
class Measured:
    """A value in the sample and in every resample."""

    value: float
    resampled: Floats
    n: int
    n_unscored: int

    def interval(self, level: float, groups: int) -> tuple[float, float]:
        """Percentile interval over the resamples in which the metric is defined; none if that is under half of them."""
        defined = self.resampled[~np.isnan(self.resampled)]
        if np.isnan(self.value) or groups < 2 or not len(defined) or 2 * len(defined) < len(self.resampled):
            return np.nan, np.nan
        low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    @property
    def undefined(self) -> int:
        """Resamples in which the metric has no value though the sample has one."""
        return 0 if np.isnan(self.value) else int(np.isnan(self.resampled).sum())


def evaluate(metric: Metric, cell: Cell, part: Slice) -> Iterator[tuple[str, Measured]]:
    """The metric's labels on this cell, each with what was measured; nothing where it does not apply."""
    reads = frozenset(metric.reads)
    if not cell.applies(reads):
        return
    universe = part.rows
    if reads & CHOICE_ONLY:
        universe = universe[cell.samples.n_options[universe] > 0]
    if reads & OPEN_ONLY:
        universe = universe[cell.samples.n_options[universe] == 0]
    place = np.searchsorted(part.rows, universe)
    for scored_by, columns, mean_over in _columns_for(metric, cell, reads):
        label = f"{metric.label}[{scored_by}]" if scored_by else metric.label
        measured = [_measure(metric, one, universe, place, part.bootstrap) for one in columns]
        for name, one in zip(mean_over, measured, strict=False):
            yield f"{metric.label}[{name}]", one
        yield label, _mean(measured) if mean_over else measured[0]


def _columns_for(metric: Metric, cell: Cell, reads: frozenset[str]) -> Iterator[tuple[str, list[dict[str, Floats]], list[str]]]:
    """Label in brackets, the column sets to evaluate on, and the labels of each where their mean is wanted too."""
    settings = dict(cell.settings) if "is_calibration" in reads or reads & SET_COLUMNS else {}
    estimators = cell.uncertainties if "uncertainty" in reads else {"": None}
    for setting in settings or [""]:
        fixed = cell.columns | {"is_calibration": settings[setting].is_calibration if setting else np.zeros(cell.samples.n)}
        for estimator, values in estimators.items():
            base = fixed if values is None else fixed | {"uncertainty": values}
            name = "/".join(x for x in (setting, estimator) if x)
            if not reads & SET_COLUMNS:
                yield name, [base], []
                continue
            scores = settings[setting].scores
            yield f"{name}/{MEAN}", [base | of for of in scores.values()], [f"{name}/{score}" for score in scores]


def _measure(
    metric: Metric, columns: dict[str, Floats], universe: NDArray[np.int64], place: NDArray[np.int64], boot: Bootstrap
) -> Measured:
    taken = {name: columns[name][universe] for name in metric.reads}
    scored = ~np.any([np.isnan(values) for values in taken.values()], axis=0)
    counted = taken["is_calibration"] == 0 if metric.of_test_rows else np.ones(len(universe), dtype=bool)
    n, unscored = int((scored & counted).sum()), int((~scored & counted).sum())
    if not n:
        return Measured(np.nan, np.full(boot.times, np.nan), 0, unscored)
    chosen = np.flatnonzero(scored)
    arrays = [taken[name][chosen] for name in metric.reads]
    value = metric.function(*arrays, ones(len(chosen)), **metric.args)
    if value.shape != (1,):
        raise StageError(f"metric '{metric.label}': expected one value per resample, got shape {value.shape}")
    resampled = [metric.function(*arrays, block.rows(place[chosen]), **metric.args) for block in boot.blocks()]
    return Measured(float(value[0]), np.concatenate([*resampled, np.empty(0)]), n, unscored)


def _mean(parts: list[Measured]) -> Measured:
    """The arithmetic mean over scores, resample by resample."""
    return Measured(
        float(np.mean([p.value for p in parts])),
        np.mean([p.resampled for p in parts], axis=0),
        min(p.n for p in parts),
        max(p.n_unscored for p in parts),
    )
