"""Learn then test. Angelopoulos, Bates, Candes, Jordan, Lei, 2021 (preprint; Annals of Applied Statistics, 2025)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Lt

from qualm.runners.contracts.abstentions import AbstentionRule, Answers, Floats

CITES = ["angelopoulos2021learn"]
ALSO_KNOWN_AS = ["ltt"]
GRID = np.array([*range(990, 0, -10), 0]) / 1000
"""Thresholds that are tried, from careful to bold: .99, .98, ... .01, 0; above them the thousandths of NEAR_ONE. None depends on data."""
NEAR_ONE = np.arange(999, 990, -1) / 1000
STARTS = 10


def learn_then_test(
    fit: Answers,
    *,
    alpha: Annotated[float, Gt(0), Lt(1)] = 0.1,
    delta: Annotated[float, Gt(0), Lt(1)] = 0.1,
    risk: Literal["answered", "all"] = "answered",
    unit: Literal["group", "row"] = "group",
) -> AbstentionRule:
    """The lowest threshold whose error is shown to be at most `alpha`, with probability at least 1 - `delta`.

    Every threshold of a fixed grid is a hypothesis, "its error is above alpha", with a p-value from Hoeffding's and Bentkus' bounds. They
    are tested from ten starting points downwards, each at delta / 10 for as long as it rejects; the answer is the lowest that was
    rejected. With probability of at least 1 - delta over the draw of fitting answers the error of fresh ones is at most alpha: of this very
    threshold, where `risk_control` promises a mean over draws. Its conditions: fitting and fresh units are independent draws from one
    population, as parts of one random split are; a shift voids it. For all questions together, not for each category.

    Args:
        alpha: Allowed error.
        delta: How often the promise may fail.
        risk: Error among answered questions, which can rise where more are declined, so that methods for monotone risks do not apply; or
            the share of all questions that is answered wrongly, as `risk_control` has it.
        unit: What is independent. `group`: whole groups, each with its mean loss. `row`: single questions.
    """
    grid = np.concatenate([NEAR_ONE, GRID])
    p = np.array([_p_value(*_losses(fit, t, risk, unit), alpha) for t in grid])
    passed = np.zeros(len(grid), dtype=bool)
    for start in np.linspace(0, len(grid), STARTS, endpoint=False).astype(int):
        fails = np.flatnonzero(p[start:] > delta / STARTS)
        passed[start : start + int(fails[0]) if len(fails) else len(grid)] = True
    what = "error among answered questions" if risk == "answered" else "share of questions answered wrongly"
    if not passed.any():
        return AbstentionRule(
            float(np.nextafter(1.0, 2.0)),
            f"{len(set(fit.group.tolist())):,} groups of answers do not show that any threshold keeps the {what} at or below {alpha:g}, "
            "so every question is declined.",
            attained=False,
        )
    threshold = float(grid[np.flatnonzero(passed)[-1]])
    statement = f"With probability {1 - delta:g} the {what} is at most {alpha:g}; answers below {threshold:.4g} decline."
    return AbstentionRule(threshold, statement)


def _losses(fit: Answers, threshold: float, risk: str, unit: str) -> tuple[int, float]:
    """How many units there are, and their mean loss; of answered questions units with an answered one."""
    answered = (fit.confidence >= threshold) & (fit.pred_is_idk == 0)
    loss = (1 - fit.correct) * answered
    counted = answered if risk == "answered" else np.ones(len(fit), dtype=bool)
    place = np.unique(fit.group, return_inverse=True)[1] if unit == "group" else np.arange(len(fit))
    size = np.bincount(place, counted)
    means: Floats = np.bincount(place, loss)[size > 0] / size[size > 0]
    return len(means), float(means.mean()) if len(means) else 1.0


def _p_value(n: int, mean: float, alpha: float) -> float:
    """Of "the mean of n independent losses in [0, 1] is above alpha": the smaller of Hoeffding's bound and Bentkus', which holds as it is
    (Bates, Angelopoulos, Lei, Malik, Jordan, 2021, proposition 3)."""
    from scipy.special import bdtr, rel_entr

    if not n or mean >= alpha:
        return 1.0
    hoeffding = float(np.exp(-n * (rel_entr(mean, alpha) + rel_entr(1 - mean, 1 - alpha))))
    bentkus = float(np.e * bdtr(np.ceil(n * mean - 1e-9), n, alpha))
    return min(1.0, hoeffding, bentkus)
