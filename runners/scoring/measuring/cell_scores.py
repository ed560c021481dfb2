"""Everything measured of one cell: each metric on all slices, computed, or taken from the store of scores.

Each metric is evaluated by itself, so that a value does not depend on which others were asked for or found in the store: the table that is
made from the store has the bytes of the one that is made from nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, SET_COLUMNS
from qualm.registry.plugins.columns import recalibrated
from qualm.registry.sample import LABELLED_SCORES
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import PAIRED_UNCERTAINTY, Cell
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.evaluate import evaluate_apart
from qualm.runners.scoring.measuring.intervals import about, intervals
from qualm.runners.scoring.measuring.measured import Measured, Slice, or_null
from qualm.runners.scoring.measuring.metrics import Metric
from qualm.runners.scoring.rankings import drawn_of
from qualm.runners.store.newest import Newest
from qualm.runners.store.scores import KeptScores, ScoreStore, content_digest

RESAMPLES = "resamples undefined"
"""Counter of the resamples in which a score has no value, over all scores."""
FROM_STORE = "from the store"
"""Counter of the scores that were not computed."""

OF_CELL = ("model", "dataset", "variant", "slice", "collapsed")
"""Columns that are the same for all that is measured of a cell on a slice."""
ROWS = pa.schema(
    [
        ("part", pa.int64()),  # the place of the slice
        *(f for f in LABELLED_SCORES if f.name not in OF_CELL),
        ("undefined", pa.string()),  # why, where the metric says so
        ("bound_low", pa.float64()),  # what the value cannot leave
        ("bound_high", pa.float64()),
        ("is_drawn", pa.bool_()),  # whether rankings read its draws
    ]
)
_ELSEWHERE = frozenset({"model", "samples", "settings", "uncertainties", "clean_uncertainties", "recalibrations", "frequent", "collapsed"})
"""Fields of cells on which no value depends, or not that of every metric."""


Computed = tuple[Slice, list[tuple[str, Measured]], list[Limits]]
"""A slice, what was measured on it by label, and the intervals of that."""


@dataclass(frozen=True)
class MetricScores:
    """One metric of one cell on all slices."""

    metric: Metric
    rows: pa.Table
    """As ROWS says."""
    kept: KeptScores | None = None
    own_draws: NDArray[np.float32] | None = None

    @property
    def key(self) -> str:
        """Of the store; empty where nothing is kept."""
        return self.kept.key if self.kept is not None else ""

    def draws(self, times: int) -> NDArray[np.float32]:
        """(k, times): of the rows that are drawn, in their order."""
        if self.own_draws is not None:
            return self.own_draws
        assert self.kept is not None
        return self.kept.draws(times)


@dataclass
class CellScores:
    cell: Cell
    slices: Sequence[Slice]
    by_metric: list[MetricScores]
    computed: list[Computed]
    """Of each slice what was not in the store, in the order of metrics."""
    from_store: int = 0

    @property
    def is_new(self) -> bool:
        """Whether anything was computed that the store keeps."""
        return any(of.kept is not None and of.own_draws is not None for of in self.by_metric)

    @cached_property
    def _rows(self) -> pa.Table:
        together = pa.concat_tables([ROWS.empty_table(), *(scores.rows for scores in self.by_metric)]).combine_chunks()
        # Stored by metric, shown by slice: a stable sort keeps the order of metrics within each slice.
        return together.take(pa.array(np.argsort(together["part"].to_numpy(), kind="stable")))

    def table(self) -> pa.Table:
        """Rows of LABELLED_SCORES, slice by slice in the order of metrics."""
        rows = self._rows
        labels = pa.array([part.label for part in self.slices], pa.string())
        same = {"model": self.cell.model, "dataset": self.cell.samples.name, "variant": self.cell.variant}
        own = {name: pa.repeat(pa.scalar(text, pa.string()), rows.num_rows) for name, text in same.items()}
        own["collapsed"] = pa.repeat(pa.scalar(self.cell.collapsed or None, pa.string()), rows.num_rows)
        own["slice"] = pc.take(labels, rows["part"])
        columns = [own[name] if name in own else rows[name] for name in LABELLED_SCORES.names]
        return pa.table(columns, schema=LABELLED_SCORES)

    def counts(self) -> Counter[str]:
        """For the stage's record."""
        rows = self._rows
        counts = Counter(scores=rows.num_rows, undefined=rows["value"].null_count)
        counts[RESAMPLES] = pc.sum(rows["n_undefined_resamples"]).as_py() or 0
        counts.update(f"undefined ({why})" for why in rows["undefined"].drop_null().to_pylist())
        if self.from_store:
            counts[FROM_STORE] = self.from_store
        return counts


@dataclass
class Measuring:
    """How cells are measured in one stage."""

    metrics: Sequence[Metric]
    level: float
    store: ScoreStore | None = None
    _code: dict[str, str] = field(default_factory=dict)
    _of_slices: Newest[str] = field(default_factory=Newest)

    def measure(self, cell: Cell, slices: Sequence[Slice]) -> CellScores:
        """Each metric that applies, from the store where it has it."""
        metrics, keys = self._asked(cell, slices)
        stored = {label: scores for label, key in keys.items() if key and self.store and (scores := self.store.get(key)) is not None}
        computed, fresh = self._compute([metric for metric in metrics if metric.label not in stored], cell, slices)
        new = {scores.metric.label: self._put(scores, keys[scores.metric.label]) for scores in fresh}
        by_metric = [MetricScores(m, of.rows, of) if (of := stored.get(m.label)) is not None else new[m.label] for m in metrics]
        return CellScores(cell, slices, by_metric, computed, sum(of.rows.num_rows for of in stored.values()))

    def keep(self, cell: Cell, slices: Sequence[Slice]) -> Iterator[int]:
        """Have the store hold what it can of a cell; how many scores it lacks, before it gets them."""
        assert self.store is not None
        metrics, keys = self._asked(cell, slices)
        missing = [metric for metric in metrics if (key := keys[metric.label]) and not self.store.has(key)]
        fresh = self._compute(missing, cell, slices)[1]
        yield sum(scores.rows.num_rows for scores in fresh)
        for scores in fresh:
            self._put(scores, keys[scores.metric.label])

    def _asked(self, cell: Cell, slices: Sequence[Slice]) -> tuple[list[Metric], dict[str, str]]:
        """The metrics that apply to a cell, and the key of each, by its label."""
        metrics = [metric for metric in self.metrics if cell.applies(frozenset(metric.reads))]
        content = _CellContent(cell)
        return metrics, {metric.label: self._key(metric, content, slices) for metric in metrics}

    def _compute(self, missing: Sequence[Metric], cell: Cell, slices: Sequence[Slice]) -> tuple[list[Computed], list[MetricScores]]:
        """Measure some metrics, slice by slice; the same by metric."""
        computed: list[Computed] = []
        own_rows: dict[str, list[dict[str, Any]]] = {metric.label: [] for metric in missing}
        draws: dict[str, list[NDArray[np.float32]]] = {metric.label: [] for metric in missing}
        for place, part in enumerate(slices if missing else ()):
            computed.append((part, [], []))
            for metric, values in zip(missing, evaluate_apart(missing, cell, part), strict=True):
                distinct = {id(measured): measured for _, measured in values}  # several settings may have one value
                ends_of = dict(zip(distinct, intervals([*distinct.values()], self.level, part.bootstrap.groups), strict=True))
                drawn_by = {of: drawn_of(metric, measured) for of, measured in distinct.items()}
                row_of = {of: _row(place, one, ends_of[of], self.level, drawn_by[of] is not None) for of, one in distinct.items()}
                for label, measured in values:
                    if (drawn := drawn_by[id(measured)]) is not None:
                        draws[metric.label].append(drawn)
                    own_rows[metric.label].append(row_of[id(measured)] | {"metric": label})
                computed[-1][1].extend(values)
                computed[-1][2].extend(ends_of[id(measured)] for _, measured in values)
        by_metric = []
        for metric in missing:
            rows = pa.Table.from_pylist(own_rows[metric.label], schema=ROWS)
            by_metric.append(MetricScores(metric, rows, own_draws=np.array(draws[metric.label], dtype=np.float32)))
        return computed, by_metric

    def _put(self, scores: MetricScores, key: str) -> MetricScores:
        if not key or self.store is None:
            return scores
        assert scores.own_draws is not None
        return replace(scores, kept=self.store.put(key, scores.rows, scores.own_draws))

    def _key(self, metric: Metric, content: _CellContent, slices: Sequence[Slice]) -> str:
        """Of everything that its numbers depend on but the code of scoring, which the store's identity holds; empty where none is kept."""
        # Recalibrated scores hang on fits over the whole cell, of which no digest is made.
        if self.store is None or (content.cell.recalibrations and recalibrated(metric.reads, metric.args)):
            return ""
        of_slices = self._of_slices.of(slices, lambda: _digest_of(slices))
        if not of_slices:
            return ""
        module = metric.function.__module__
        if module not in self._code:
            self._code[module] = engine_digest(module)
        how = [metric.label, metric.plugin.name, metric.args, self._code[module], self.level]
        return self.store.key(how, of_slices, content.read_by(metric))


def _digest_of(slices: Sequence[Slice]) -> str:
    """Of their rows and resamples; empty where those have none."""
    drawn = [part.bootstrap.content if isinstance(part.bootstrap, Bootstrap) else None for part in slices]
    if None in drawn:
        return ""
    return content_digest(
        [(part.label, part.rows, of, part.bootstrap.whole is slices[0].bootstrap) for part, of in zip(slices, drawn, strict=True)]
    )


@dataclass
class _CellContent:
    """Digests of what metrics read of a cell."""

    cell: Cell

    def read_by(self, metric: Metric) -> list[str]:
        reads = set(metric.reads)
        # By what a metric reads: another estimator or conformal setting leaves the stored scores of all other metrics valid.
        parts = [self._always]
        parts += [self._sets] if "is_calibration" in reads or reads & SET_COLUMNS else []
        parts += [self._uncertainties] if "uncertainty" in reads or reads & PAIRED_UNCERTAINTY else []
        return parts + [content_digest(self.cell.coded(c)) for c in sorted(reads) if c.startswith((GROUP_OF, CODE_OF))]

    @cached_property
    def _always(self) -> str:
        samples = self.cell.samples
        return content_digest([samples.name, samples.n_options, samples.truth]) + content_digest(self.cell, _ELSEWHERE)

    @cached_property
    def _sets(self) -> str:
        return content_digest(self.cell.settings)

    @cached_property
    def _uncertainties(self) -> str:
        return content_digest([self.cell.uncertainties, self.cell.clean_uncertainties])


def score_store() -> ScoreStore:
    """That of the code as it is now."""
    return ScoreStore(engine_digest(__name__))


def numbers_of(measured: Measured, ends: Limits, level: float) -> dict[str, Any]:
    """What a row of scores says of a value."""
    undefined = np.isnan(measured.value)
    why = (measured.why if undefined else "") or measured.why_unscored
    value = {"value": or_null(measured.value), "low": or_null(ends.low), "high": or_null(ends.high)}
    return value | {"n": measured.n, "n_unscored": measured.n_unscored, "why": why or None} | about(measured, ends, level)


def _row(place: int, measured: Measured, ends: Limits, level: float, is_drawn: bool) -> dict[str, Any]:
    why = measured.why if np.isnan(measured.value) else ""
    low, high = measured.bounds
    bounds = {"bound_low": low, "bound_high": high}
    return {"part": place, **numbers_of(measured, ends, level), "undefined": why or None, **bounds, "is_drawn": is_drawn}
