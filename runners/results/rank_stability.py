"""Rank stability of estimators across models and datasets: Kendall's tau-b of two rankings, with an interval.

If it is low, "the best estimator" is a statement about one model on one dataset only.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from qualm.runners.data.aligned import Floats
from qualm.runners.runtime.precision import FINEST, round_result

MIN_ESTIMATORS = 3
ENOUGH = 0.5
"""Least share of resamples with a value for an interval."""

Place = tuple[str, str, str]
"""(metric, model, dataset) of a ranking."""


def tau_b(a: Floats, b: Floats) -> Floats:
    """Return (B,) Kendall's tau-b of each row of `a` (B, E) and `b` (B, E); NaN if undefined.

    (concordant - discordant pairs) / sqrt(pairs untied in a * pairs untied in b), in [-1, 1]: 1 for the same order, -1 for the reverse. NaN
    where a row lacks a value or is all ties. (Kendall, 1945)

    >>> tau_b(np.array([[1.0, 2, 3]]), np.array([[1.0, 3, 2]])).round(3).tolist()
    [0.333]
    """
    pairs = np.array(list(combinations(range(a.shape[1]), 2)), dtype=np.int64).reshape(-1, 2)
    a, b = (np.round(x, FINEST) for x in (a, b))  # sums in another order make no order of their own
    one, other = (np.sign(x[:, pairs[:, 0]] - x[:, pairs[:, 1]]) for x in (a, b))
    untied = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = (one * other).sum(axis=1) / untied  # 0 / 0 where all are ties
    return tau


def stability(tables: Mapping[Place, Mapping[str, Floats]], level: float) -> Iterator[dict[str, Any]]:
    """Yield rows of tau-b between two rankings of estimators by one metric, or of one model.

    Compared are the rankings by one metric (of two models or datasets), and by two metrics of one model on one dataset.

    The percentile interval is over resamples of the questions: resample b of one place is paired with resample b of the other. On one
    dataset these are the same resamples, so what models share cancels out. `tables` has per place, per estimator, (1 + B,), its value and
    its value in every resample; higher is better for every metric. `tau_b` is null where fewer than three estimators have both values, or
    one ranking is all ties.
    """
    for first, second in combinations(tables, 2):
        if first[0] != second[0] and first[1:] != second[1:]:
            continue
        a, b = tables[first], tables[second]
        shared = [e for e in a if e in b and np.isfinite(a[e][0]) and np.isfinite(b[e][0])]
        names = ("metric_a", "model_a", "dataset_a", "metric_b", "model_b", "dataset_b")
        row: dict[str, Any] = dict(zip(names, (*first, *second), strict=True)) | {"n_estimators": len(shared)}
        yield row | dict(zip(("tau_b", "low", "high"), _tau(a, b, shared, level), strict=True))


def _tau(a: Mapping[str, Floats], b: Mapping[str, Floats], shared: Sequence[str], level: float) -> tuple[float | None, ...]:
    if len(shared) < MIN_ESTIMATORS:
        return None, None, None
    times = min(len(of[e]) for of in (a, b) for e in shared)
    taus = tau_b(*(np.stack([of[e][:times] for e in shared], axis=1) for of in (a, b)))
    if np.isnan(taus[0]):
        return None, None, None
    drawn = taus[1:][~np.isnan(taus[1:])]
    if not len(drawn) or len(drawn) < ENOUGH * (times - 1):
        return float(taus[0]), None, None
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(taus[0]), round_result(low), round_result(high)
