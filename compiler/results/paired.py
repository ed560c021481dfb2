"""Two sets of answers to the same questions: the difference of every metric with its interval, and McNemar's test.

Both sides are measured on the same rows and in the same resamples, so what they share (easy questions, one image with
many questions) cancels out of the difference. Comparing two intervals by eye throws that away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qualm.runners.data.aligned import Samples
    from qualm.runners.scoring.cells import Cell
    from qualm.runners.scoring.families import Evidence
    from qualm.runners.scoring.measuring.metrics import Metric
    from qualm.runners.scoring.paired_tests import Test


@dataclass(frozen=True)
class PairedDifference:
    """One metric on one dataset: b minus a, with Student's t interval over paired, grouped resamples."""

    dataset: str
    metric: str
    a: float | None
    b: float | None
    delta: float | None
    low: float | None
    high: float | None
    n: int
    """Rows that both sides are measured on."""
    higher_is_better: bool | None
    p: float | None = None
    """Two-sided, of Student's t (`qualm.runners.scoring.paired_tests`)."""
    p_adjusted: float | None = None
    """Corrected over all that is compared at once, or a part of it, as the spec's `compare: {family}` says."""
    why: str | None = None
    """Reason why there is no p."""
    compared_by: str | None = None
    """The unbiased metric, squared, whose values these are; None: the metric itself."""
    margin: float | None = None
    p_equivalent: float | None = None
    """Corrected p-value of two one-sided tests that the difference is within the margin."""
    p_not_worse: float | None = None
    """That b is not worse by the margin or more; corrected."""
    plain_a: float | None = None
    plain_b: float | None = None
    """The metric's own values, where it is compared by another one."""
    scored_share_a: float | None = None
    scored_share_b: float | None = None
    """Scored share of each side, over the questions that both were asked."""
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def significant(self) -> bool | None:
        """Return whether the corrected test finds a difference; None without a test."""
        return None if self.p_adjusted is None else bool(self._verdict)

    @property
    def better(self) -> str | None:
        """Return the significantly better side, `a` or `b`; None if tied or without a direction."""
        return {"better": "b", "worse": "a"}.get(self._verdict)

    @property
    def _verdict(self) -> str:
        from qualm.runners.scoring.families import verdict

        return verdict(self.p_adjusted, self.delta, self.higher_is_better)

    def as_json(self) -> dict[str, Any]:
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "evidence"}
        return {**facts, "significant": self.significant, "better": self.better}


@dataclass(frozen=True)
class McNemar:
    """Right and wrong answers of two models to the same questions. McNemar, Psychometrika 12, 1947; exact form."""

    dataset: str
    metric: str
    """The accuracy whose rows these are."""
    n: int
    both_right: int
    only_a: int
    only_b: int
    both_wrong: int
    p: float
    """Two-sided exact p: were the discordant questions split by a fair coin?"""
    p_holm: float
    """Corrected for the number of such tests (Holm, 1979)."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Return exact two-sided p-value of the discordant pairs; 1 where there are none, since nothing then speaks for either."""
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)


def align(a: Cell, b: Cell) -> tuple[Cell, Cell, int]:
    """Return both cells on their shared questions, and how many were left out.

    A question is shared if its id, text, choices, truth and references are the same on both sides.
    """
    rows_a, rows_b = _shared(a.samples, b.samples)
    one, other = _taken(a, rows_a), _taken(b, rows_b)
    other = replace(other, samples=one.samples)
    return one, other, max(a.samples.n, b.samples.n) - len(rows_a)


def _shared(a: Samples, b: Samples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np

    columns = ["question", "references", "choices", "answer_index"]
    places = {name: i for i, name in enumerate(b.ids.to_pylist())}
    mine, yours = (s.table.select(columns).to_pylist() for s in (a, b))
    pairs = [(i, places[name]) for i, name in enumerate(a.ids.to_pylist()) if name in places and mine[i] == yours[places[name]]]
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _taken(cell: Cell, rows: NDArray[np.int64]) -> Cell:
    """Return copies of some rows of a cell."""
    from qualm.runners.data.aligned import Samples
    from qualm.runners.scoring.cells import Setting

    settings = {
        name: Setting(
            s.is_calibration[rows],
            {score: {k: v[rows] for k, v in columns.items()} for score, columns in s.scores.items()},
            {score: of.select(rows) for score, of in s.redraws.items()},
        )
        for name, s in cell.settings.items()
    }
    return replace(
        cell,
        samples=Samples(cell.samples.name, cell.samples.table.take(rows)),
        columns={k: v[rows] for k, v in cell.columns.items()},
        settings=settings,
        uncertainties={k: v[rows] for k, v in cell.uncertainties.items()},
        recalibrations=[of.select(rows) for of in cell.recalibrations],
    )


def differences(
    a: Cell,
    b: Cell,
    metrics: Sequence[Metric],
    times: int,
    level: float,
    seed: int,
    margin: float | Mapping[str, float] | None = None,
) -> list[PairedDifference]:
    """Test every metric that both cells allow. The cells must be aligned."""
    import numpy as np

    from qualm.runners.scoring.bootstrap import Bootstrap
    from qualm.runners.scoring.measuring.evaluate import evaluate
    from qualm.runners.scoring.measuring.measured import Slice, or_null
    from qualm.runners.scoring.paired_tests import compare

    part = Slice("all", np.arange(a.samples.n), Bootstrap(a.samples.groups, times, seed, a.samples.name, "all"))
    found = [_difference(a.samples.name, t) for t in compare(metrics, a, b, part, level, margin)]
    biased = [metric for metric in metrics if "compared_by" in metric.plugin.declares]
    unresampled = replace(part, bootstrap=Bootstrap(a.samples.groups, 0, seed, a.samples.name, "all"))
    plain = [{label: or_null(measured.value) for label, measured in evaluate(biased, cell, unresampled)} for cell in (a, b)]
    return [replace(d, plain_a=plain[0].get(d.metric), plain_b=plain[1].get(d.metric)) for d in found]


def corrected_together(rows: Sequence[PairedDifference], correction: str, family: str) -> list[PairedDifference]:
    """With p-values corrected over what was compared at once: all of it (`study`), by dataset (`slice`), or by metric on one."""
    from qualm.runners.scoring.families import Evidence, Family

    together = Family(correction, family)
    margins = ("p_equivalent", "p_not_worse")
    places: list[dict[str, Any]] = [
        {"dataset": d.dataset, "slice": "all", "metric": d.metric} | {name: getattr(d, name) for name in margins} for d in rows
    ]
    for place, d in zip(places, rows, strict=True):
        together.add(place, d.evidence or Evidence(math.nan))
    together.correct()
    return [
        replace(d, p_adjusted=place["p_adjusted"], **{name: place[name] for name in margins}) for place, d in zip(places, rows, strict=True)
    ]


def _difference(dataset: str, t: Test) -> PairedDifference:
    from qualm.runners.scoring.measuring.measured import or_null

    a, b, delta, low, high, p = (or_null(v) for v in (t.value_a, t.value_b, t.difference, t.low, t.high, t.p))
    shares = {"scored_share_a": or_null(t.share_a), "scored_share_b": or_null(t.share_b)}
    about: dict[str, Any] = {name: or_null(getattr(t, name)) for name in ("margin", "p_equivalent", "p_not_worse")} | shares
    about |= {"why": t.why or None, "compared_by": t.compared_by or None, "evidence": t.evidence}
    return PairedDifference(dataset, t.metric, a, b, delta, low, high, t.n, t.higher_is_better, p, **about)


def tests(pairs: Sequence[tuple[Cell, Cell]], metrics: Sequence[Metric]) -> list[McNemar]:
    """Return McNemar's test for each `accuracy` among the metrics, over that metric's own rows; none where a rating is neither 0 nor 1."""
    import numpy as np

    from qualm.runners.scoring.bootstrap import Bootstrap
    from qualm.runners.scoring.families import adjusted
    from qualm.runners.scoring.measuring.evaluate import tasks_of
    from qualm.runners.scoring.measuring.measured import Slice
    from qualm.runners.scoring.paired_tests import side_by_side

    chosen = [metric for metric in metrics if metric.plugin.name == "accuracy"]
    counts: list[tuple[str, str, list[int]]] = []
    for a, b in pairs:
        part = Slice("all", np.arange(2 * a.samples.n), Bootstrap(np.tile(a.samples.groups, 2), 1, 0, a.samples.name, "all"))
        for label, (task, *_) in tasks_of(chosen, side_by_side(a, b), part)[1]:
            columns = dict(zip(task.metric.reads, task.arrays, strict=True))
            one, other = columns["correct"][columns["is_calibration"] == 0].reshape(2, -1)
            if len(one) and set(np.unique([one, other])) <= {0.0, 1.0}:
                right, also = one == 1, other == 1
                cells = [int(c.sum()) for c in (right & also, right & ~also, ~right & also, ~right & ~also)]
                counts.append((a.samples.name, label, cells))
    raw = [mcnemar_p(cells[1], cells[2]) for _, _, cells in counts]
    return [
        McNemar(name, label, sum(cells), cells[0], cells[1], cells[2], cells[3], p, corrected)
        for (name, label, cells), p, corrected in zip(counts, raw, adjusted(raw, "holm"), strict=True)
    ]
