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
    """Return a rule: least threshold with error <= alpha at chance 1 - delta; above 1 if none.

    Every threshold of a fixed grid is a hypothesis, "its error is above alpha". Its p-value is from Hoeffding's and Bentkus' bounds or,
    where groups differ in size, from a betting bound (Waudby-Smith and Ramdas, 2024). The hypotheses are tested from ten starting points
    downwards, each at delta / 10 for as long as it rejects; the answer is the lowest that was rejected. With probability of at least
    1 - delta over the draw of fitting answers, the error of fresh ones is at most alpha: of this very threshold, where `risk_control`
    promises a mean over draws.

    The error is that of questions, each of which counts once, however uneven the groups are; over all questions together, not for each
    category. It requires fitting and fresh groups that are independent draws from one population, as in one random split, and no fresh
    group larger than the largest fitting one; a distribution shift voids it.

    Args:
        alpha: Allowed error.
        delta: How often the promise may fail.
        risk: Error among answered questions, which can rise where more are declined, so that methods for monotone risks do not apply; or
            the share of all questions that is answered wrongly, as `risk_control` has it.
        unit: The independent unit. `group`: whole groups (the questions on one image). `row`: single questions.
    """
    grid = np.concatenate([NEAR_ONE, GRID])
    place = np.unique(fit.group, return_inverse=True)[1] if unit == "group" else np.arange(len(fit))
    p = np.array([_p_value(*_losses(fit, place, t, risk, alpha), alpha, delta / STARTS) for t in grid])
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


def _losses(fit: Answers, place: np.ndarray, threshold: float, risk: str, alpha: float) -> tuple[Floats, bool]:
    """Return (losses in [0, 1] of the units that count, whether these have equal sizes).

    `place` has each answer's unit by number. Units without a question that counts are left out.

    With m the most questions of a unit that count, a unit's loss is alpha + (sum over them of loss - alpha) / m: its mean exceeds alpha
    exactly where the share of questions does. Of units with as many questions each it is the mean loss.
    """
    answered = (fit.confidence >= threshold) & (fit.pred_is_idk == 0)
    counted = answered if risk == "answered" else np.ones(len(fit), dtype=bool)
    size = np.bincount(place, counted)
    above: Floats = np.bincount(place, (1 - fit.correct) * answered) - alpha * size
    return alpha + above[size > 0] / size.max(initial=1), len(np.unique(size[size > 0])) <= 1


def _p_value(losses: Floats, equal_unit_sizes: bool, alpha: float, level: float) -> float:
    """Return the p-value of the null hypothesis that losses in [0, 1] have a mean above alpha.

    The losses are independent.

    For units of equal size it is the smaller of Hoeffding's bound and Bentkus', which holds as it is (Bates, Angelopoulos, Lei, Malik,
    Jordan, 2021, proposition 3). Losses of units of unequal size vary far less than 0 and 1 would: there it is by betting (their
    proposition 5), with stakes that aim at `level` and units in random order.
    """
    from scipy.special import bdtr, rel_entr

    n, mean = len(losses), float(losses.mean()) if len(losses) else 1.0
    if mean >= alpha:
        return 1.0
    if not equal_unit_sizes:
        return _betting_p_value(np.random.default_rng(0).permutation(losses), alpha, level)
    hoeffding = float(np.exp(-n * (rel_entr(mean, alpha) + rel_entr(1 - mean, 1 - alpha))))
    bentkus = float(np.e * bdtr(np.ceil(n * mean - 1e-9), n, alpha))
    return min(1.0, hoeffding, bentkus)


def _betting_p_value(losses: Floats, alpha: float, level: float) -> float:
    """Return the p-value of "the mean loss is above alpha": 1 / the greatest gain in betting."""
    counts = np.arange(1, len(losses) + 1)
    mean = (0.5 + np.cumsum(losses)) / (counts + 1)
    variance = (0.25 + np.cumsum((losses - mean) ** 2)) / (counts + 1)
    known = np.concatenate([[0.25], variance[:-1]])
    stake = np.minimum(0.99 / (1 - alpha), np.sqrt(2 * np.log(1 / level) / (len(losses) * known)))
    return min(1.0, float(np.exp(-np.cumsum(np.log1p(-stake * (losses - alpha))).max())))
