"""Hallucination consistency coefficient (HCC). VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li."""

from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio

CITES = ["wang_vlmuqbench"]
META = MetricMeta(
    higher_is_better=True,
    interval="correlation",
    over={"only_clean_correct": "clean_correct"},
    test="independence",
    companions=["hallucination_rate", "unchanged_input_rate"],
)
SLACK = 1e-12
"""A variance below this share of the mean square is rounding, not variance."""


def hallucination_change_correlation(
    uncertainty_change: Floats,
    correct: Floats,
    clean_correct: Floats,
    weights: Weights,
    *,
    only_clean_correct: bool = False,
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
) -> Floats:
    """Correlation of the rise of uncertainty with answers that a perturbation turns wrong.

    The point-biserial correlation of d = u_perturbed - u_clean with H = 1[right when clean, wrong when perturbed],
    (mean of d where H=1 - mean of d where H=0) / s * sqrt(n1 n0 / n^2) with the population deviation s, in [-1, 1], higher is
    better. Negative values are shown as negative (the paper's heat maps show them as 0). Samples already wrong when clean
    have H = 0 by that definition. With hallucination rates of a few per cent n1 is tiny: read the interval, and the rate
    that is computed beside it. Samples whose d is not finite are unscored. Not of the clean variant. Undefined where nobody
    hallucinates or all do, where all changes are equal, and under perturbations that ask another question (`KEEPS_ANSWER = False`).

    Args:
        only_clean_correct: Take only samples that are right when clean; n then counts those.
        right_from: The least correctness that counts as right.
    """
    if not len(correct):
        return np.full(weights.shape[0], np.nan)
    was_right = (clean_correct >= right_from) * 1.0
    rows = was_right if only_clean_correct else np.ones_like(correct)
    hallucinated = was_right * (correct < right_from)
    change = uncertainty_change - (uncertainty_change.min() + uncertainty_change.max()) / 2  # equal changes become exactly 0
    n, n1, total, of_them, squares = (
        weights @ np.column_stack([rows, hallucinated, change * rows, change * hallucinated, change**2 * rows])
    ).T
    mean, square = ratio(total, n), ratio(squares, n)
    variance = square - mean**2
    spread = np.where(variance > SLACK * square, np.sqrt(np.maximum(variance, 0)), np.nan)
    rate = ratio(n1, n)
    apart = ratio(of_them, n1) - ratio(total - of_them, n - n1)
    return np.clip(apart / spread * np.sqrt(rate * (1 - rate)), -1.0, 1.0)


def why_undefined(
    uncertainty_change: Floats, correct: Floats, clean_correct: Floats, *, only_clean_correct: bool = False, right_from: float = 0.5
) -> str:
    """Return the reason for a correlation known to be undefined; never ""."""
    was_right = clean_correct >= right_from
    rows = was_right if only_clean_correct else np.ones(len(correct), dtype=bool)
    hallucinated = was_right & (correct < right_from)
    if not hallucinated.any():
        return "no answer became wrong"
    return "every answer became wrong" if hallucinated[rows].all() else "all changes of uncertainty are equal"


def classes(
    uncertainty_change: Floats, correct: Floats, clean_correct: Floats, *, only_clean_correct: bool = False, right_from: float = 0.5
) -> Floats:
    """Return (n,) labels of two contrasted classes: 1 where the answer became wrong."""
    return ((clean_correct >= right_from) & (correct < right_from)).astype(np.float64)
