"""Two sets of answers to the same questions: the difference of every metric with its interval, and McNemar's test.

Both sides are measured on the same rows and in the same resamples, so what they share (easy questions, one image with
many questions) cancels out of the difference. Comparing two intervals by eye throws that away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qualm.runners.data.aligned import Samples
    from qualm.runners.scoring.cells import Cell
    from qualm.runners.scoring.families import Evidence
    from qualm.runners.scoring.measuring.metrics import Metric


Row = dict[str, Any]


def as_json(row: Row) -> Row:
    """Return a corrected row of `differences` for JSON; `better` is "a", "b" or None."""
    from qualm.runners.scoring.families import verdict

    word = verdict(row["p_adjusted"], row["difference"], row["higher_is_better"])
    shown = {name: row[name] for name in ("dataset", "metric")}
    shown |= {"a": row["value_a"], "b": row["value_b"], "delta": row["difference"]}
    shown |= {name: value for name, value in row.items() if name not in ("slice", "value_a", "value_b", "difference")}
    better = {"better": "b", "worse": "a"}.get(word)
    return shown | {"significant": None if row["p_adjusted"] is None else bool(word), "better": better}


@dataclass(frozen=True)
class McNemar:
    """Result of McNemar's exact test of two models' right and wrong answers.

    McNemar, Psychometrika 12, 1947.
    """

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
    """Return McNemar's exact two-sided p of the numbers of answers right in one model only.

    It is 1 if both are 0.
    """
    if only_a + only_b == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)


def align(a: Cell, b: Cell) -> tuple[Cell, Cell, int]:
    """Return (a, b, number left out), both restricted to equal questions, in one order.

    A question is shared if its id, text, choices, truth and references are the same on both sides.
    """
    rows_a, rows_b = _shared(a.samples, b.samples)
    one, other = _select_rows(a, rows_a), _select_rows(b, rows_b)
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


def _select_rows(cell: Cell, rows: NDArray[np.int64]) -> Cell:
    """Return a copy of a cell with these rows, in this order."""
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
    n_resamples: int,
    level: float,
    seed: int,
    margin: float | Mapping[str, float] | None = None,
) -> list[tuple[Row, Evidence]]:
    """Return (row on b minus a, evidence for correction) per metric label that both have.

    Returns:
        A row of COMPARISONS for each, without models and corrected p, and its evidence. `plain_a` and `plain_b` are the metric's own
        values, where it is compared by another one.
    """
    import numpy as np

    from qualm.runners.scoring.bootstrap import Bootstrap
    from qualm.runners.scoring.measuring.evaluate import evaluate
    from qualm.runners.scoring.measuring.measured import Slice, or_null
    from qualm.runners.scoring.paired_tests import compare

    part = Slice("all", np.arange(a.samples.n), Bootstrap(a.samples.groups, n_resamples, seed, a.samples.name, "all"))
    biased = [metric for metric in metrics if "compared_by" in metric.plugin.declares]
    unresampled = replace(part, bootstrap=Bootstrap(a.samples.groups, 0, seed, a.samples.name, "all"))
    plain = [{label: or_null(measured.value) for label, measured in evaluate(biased, cell, unresampled)} for cell in (a, b)]
    return [
        (
            {"dataset": a.samples.name, "slice": "all", **test.row}
            | {f"plain_{side}": of.get(test.metric) for side, of in zip("ab", plain, strict=True)},
            test.evidence,
        )
        for test in compare(metrics, a, b, part, level, margin)
    ]


def mcnemar_tests(pairs: Sequence[tuple[Cell, Cell]], metrics: Sequence[Metric]) -> list[McNemar]:
    """Return McNemar's test per pair of cells and `accuracy` metric, Holm-corrected.

    There is none where a rating is neither 0 nor 1.
    """
    import numpy as np

    from qualm.runners.scoring.bootstrap import Bootstrap
    from qualm.runners.scoring.families import adjusted
    from qualm.runners.scoring.measuring.evaluate import tasks_of
    from qualm.runners.scoring.measuring.measured import Slice
    from qualm.runners.scoring.paired_tests import common_rows

    chosen = [metric for metric in metrics if metric.plugin.name == "accuracy"]
    counts: list[tuple[str, str, list[int]]] = []
    for a, b in pairs:
        part = Slice("all", np.arange(a.samples.n), Bootstrap(a.samples.groups, 1, 0, a.samples.name, "all"))
        mine, yours = (dict(tasks_of(chosen, cell, part)[1]) for cell in common_rows(a, b))
        for label in (label for label in mine if label in yours):
            columns = [dict(zip(task.metric.reads, task.arrays, strict=True)) for task in (mine[label][0], yours[label][0])]
            one, other = (of["correct"][of["is_calibration"] == 0] for of in columns)
            if len(one) and set(np.unique([one, other])) <= {0.0, 1.0}:
                right, also = one == 1, other == 1
                cells = [int(c.sum()) for c in (right & also, right & ~also, ~right & also, ~right & ~also)]
                counts.append((a.samples.name, label, cells))
    raw = [mcnemar_p(cells[1], cells[2]) for _, _, cells in counts]
    return [
        McNemar(name, label, sum(cells), cells[0], cells[1], cells[2], cells[3], p, corrected)
        for (name, label, cells), p, corrected in zip(counts, raw, adjusted(raw, "holm"), strict=True)
    ]
