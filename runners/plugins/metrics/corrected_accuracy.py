"""Accuracy corrected for the judge's errors. Prediction-powered inference: Angelopoulos et al., 2023 (Science)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.limits import critical, effective_units, wilson_interval
from qualm.runners.scoring.measuring.bounded_means import combine_intervals

CITES = ["angelopoulos2023prediction", "angelopoulos2023ppi", "rogan1978estimating", "lang2014confidence", "zou2008construction"]
ALSO_KNOWN_AS = ["prediction_powered_inference", "ppi", "ppi++", "rogan_gladen"]
META = MetricMeta(
    higher_is_better=True,
    interval="own",
    assumes="the labelled answers are a random sample of all answers",
    companions=["accuracy", "judge_agreement"],
)
MIN_LABELS = 30
"""Labelled answers below which there is no interval."""
MIN_GROUPS = 5
"""Groups with a labelled answer below which there is no interval."""


def corrected_accuracy(
    correct: Floats,
    people_rating: Floats,
    labelled: Floats,
    is_calibration: Floats,
    weights: Weights,
    *,
    method: Literal["ppi", "rogan_gladen"] = "ppi",
) -> Floats:
    """Estimate people's mean rating of all answers from their labels of a random sample.

    In [0, 1], higher is better. It holds if the labelled answers are a random sample of all answers. `ppi` is PPI++ (Angelopoulos, Duchi
    and Zrnic, 2023): y_L + b (f - f_L), where y_L and f_L are people's and the judge's mean ratings of the labelled answers, f is the
    judge's mean rating of all answers, and b, the slope of people's ratings on the judge's in [0, 1], minimises the variance (b = lambda
    (1 + n / N) of the paper). A useless judge gives b = 0 and the labels alone. With all answers labelled the value is their mean.
    `rogan_gladen`: (f + specificity - 1) / (sensitivity + specificity - 1); ratings must be 0 or 1. Values outside [0, 1] become 0 or 1.
    Undefined without labelled answers; `rogan_gladen` also if people call none of them right or none wrong, if a rating is neither 0 nor
    1, or if the judge is no better than chance on them.

    Args:
        method: `ppi`, or `rogan_gladen`, for which it is enough that the judge's sensitivity and specificity on the labelled answers are
            those on all answers.
    """
    if method == "rogan_gladen" and not _is_binary(correct, people_rating, labelled, is_calibration):
        return np.full(weights.shape[0], np.nan)
    tested = 1 - is_calibration
    chosen = labelled * tested
    columns = (tested, tested * correct, chosen, chosen * correct, chosen * people_rating, chosen * correct * people_rating)
    total, right, n, f, y, fy, ff = (weights @ np.column_stack([*columns, chosen * correct**2])).T
    if method == "rogan_gladen":
        sensitivity, specificity = ratio(fy, y), ratio(n - f - y + fy, n - y)
        gain = sensitivity + specificity - 1
        value = ratio(ratio(right, total) + specificity - 1, np.where(gain > 0, gain, 0))
    else:
        spread, covariation = n * ff - f**2, n * fy - f * y
        slope = np.divide(covariation, spread, out=np.zeros_like(spread), where=spread > 1e-9 * n**2)
        value = ratio(y, n) + np.clip(slope, 0, 1) * (ratio(right, total) - ratio(f, n))
    clipped: Floats = np.clip(value, 0, 1)
    return clipped


def why_undefined(correct: Floats, people_rating: Floats, labelled: Floats, is_calibration: Floats, *, method: str = "ppi") -> str:
    """Return the reason for an undefined value: what the labels lack."""
    chosen = labelled * (1 - is_calibration) > 0
    if not chosen.any():
        return "no scored answer has a label of people"
    if not _is_binary(correct, people_rating, labelled, is_calibration):
        return "rogan_gladen needs ratings of 0 and 1, by the judge and by people, and some differ; use `method: ppi`"
    if len(np.unique(people_rating[chosen])) < 2:
        return f"people call every labelled answer {'right' if people_rating[chosen][0] else 'wrong'}; use `method: ppi`"
    return "the judge is no better than chance on the labelled answers: sensitivity + specificity <= 1"


def interval(
    correct: Floats,
    people_rating: Floats,
    labelled: Floats,
    is_calibration: Floats,
    group: NDArray[np.int64],
    level: float,
    *,
    method: str = "ppi",
) -> tuple[float, float] | str:
    """Return the interval (low, high) of corrected accuracy on test rows, or why it has none.

    `ppi`: b f plus the mean of (y - b f)+ less that of (y - b f)-, each mean with a Wilson interval of the effective sample size, combined
    by MOVER (Zou and Donner, 2008). Where the judge errs rarely, this allows for errors that the
    labels do not show, which the variance alone does not. `rogan_gladen`: Lang and Reiczigel (2014), with effective sample sizes;
    conservative, since the labelled answers are part of all.
    """
    tested = is_calibration == 0
    f, y, group = correct[tested], people_rating[tested], np.unique(group[tested], return_inverse=True)[1]
    chosen = labelled[tested] > 0
    n, groups = int(chosen.sum()), len(np.unique(group[chosen]))
    if n < MIN_LABELS or groups < MIN_GROUPS:
        return f"{n} labelled answers in {groups} groups: an interval needs {MIN_LABELS} in {MIN_GROUPS}"
    if method == "rogan_gladen":
        return _lang_reiczigel(f, y, chosen, group, level)
    slope = _slope(f[chosen], y[chosen])
    value = float(corrected_accuracy(f, y, chosen.astype(np.float64), np.zeros_like(f), np.ones((1, len(f))))[0])
    gap, n_groups = y[chosen] - slope * f[chosen], int(group.max()) + 1
    judged, more, less = (
        _part(column, of, n_groups, level)
        for column, of in ((f, group), (np.maximum(gap, 0), group[chosen]), (np.maximum(-gap, 0), group[chosen]))
    )
    down, up = [slope * judged.down, more.down, less.up], [slope * judged.up, more.up, less.down]
    return combine_intervals(value, down, up, np.array([slope * judged.influences, more.influences, -less.influences]))


def classes(correct: Floats, people_rating: Floats, labelled: Floats, is_calibration: Floats, *, method: str = "ppi") -> Floats:
    """Return (n,) 1 for labelled test answers of the rarer verdict of people, 0 elsewhere."""
    chosen = labelled * (1 - is_calibration)
    right = chosen * (people_rating >= 0.5)
    return min(right, chosen - right, key=np.sum)


def bounds() -> tuple[float, float]:
    """Return the lowest and highest possible mean rating, 0 and 1."""
    return 0.0, 1.0


def _is_binary(correct: Floats, people_rating: Floats, labelled: Floats, is_calibration: Floats) -> bool:
    tested = is_calibration == 0
    people = people_rating[tested & (labelled > 0)]
    return bool(np.isin(correct[tested], (0, 1)).all() and np.isin(people, (0, 1)).all())


def _slope(f: Floats, y: Floats) -> float:
    spread = float(((f - f.mean()) ** 2).mean())
    return min(1.0, max(0.0, float(((f - f.mean()) * y).mean()) / spread)) if spread > 1e-9 else 0.0


@dataclass(frozen=True)
class _Part:
    """A mean of values in [0, 1] over whole groups, and how far its Wilson limits lie from it."""

    value: float
    error: float
    down: float
    up: float
    influences: Floats


def _part(column: Floats, group: NDArray[np.int64], n_groups: int, level: float) -> _Part:
    mean, groups = float(column.mean()), len(np.unique(group))
    influences: Floats = np.bincount(group, column - mean, n_groups).astype(np.float64) / len(column)
    error = math.sqrt(groups / max(1, groups - 1) * float((influences**2).sum()))
    low, high = wilson_interval(mean, error, critical(level, max(1, groups - 1)), effective_units(group))
    return _Part(mean, error, mean - low, high - mean, influences)


def _lang_reiczigel(f: Floats, y: Floats, chosen: NDArray[np.bool_], group: NDArray[np.int64], level: float) -> tuple[float, float] | str:
    z = critical(level, math.inf)
    right, wrong = chosen & (y == 1), chosen & (y == 0)
    of_each = min(len(np.unique(group[rows])) for rows in (right, wrong))
    if of_each < MIN_GROUPS:
        return f"labelled answers of the rarer kind, right or wrong, in {of_each} groups: an interval needs {MIN_GROUPS}"
    (share, n), (sensitivity, n_right), (specificity, n_wrong) = (
        _share_and_size(column, group[rows]) for column, rows in ((f, f >= 0), (f[right], right), (1 - f[wrong], wrong))
    )
    share, n = (share * n + z * z / 2) / (n + z * z), n + z * z
    sensitivity, n_right = (sensitivity * n_right + 1) / (n_right + 2), n_right + 2
    specificity, n_wrong = (specificity * n_wrong + 1) / (n_wrong + 2), n_wrong + 2
    gain = sensitivity + specificity - 1
    if gain <= 0:
        return "the judge is no better than chance on the labelled answers within one answer of each kind"
    value = (share + specificity - 1) / gain
    of_right, of_wrong = sensitivity * (1 - sensitivity) / n_right, specificity * (1 - specificity) / n_wrong
    shift = 2 * z * z * (value * of_right - (1 - value) * of_wrong)
    error = math.sqrt(share * (1 - share) / n + value**2 * of_right + (1 - value) ** 2 * of_wrong) / gain
    return value + shift - z * error, value + shift + z * error


def _share_and_size(column: Floats, group: NDArray[np.int64]) -> tuple[float, float]:
    """Return (share p, effective sample size p (1 - p) / SE^2; that of the groups if SE is 0).

    Korn and Graubard, 1998.
    """
    part = _part(column, group, int(group.max()) + 1, 0.95)
    varies = part.value * (1 - part.value)
    return part.value, min(len(column), varies / part.error**2) if varies > 0 and part.error > 0 else effective_units(group)
