"""Conformal risk control. Angelopoulos, Bates, Fisch, Lei, Schuster, 2024 (ICLR; preprint 2022)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Lt

from qualm.runners.contracts.abstentions import AbstentionRule, Answers

CITES = ["angelopoulos2024conformal"]


def risk_control(fit: Answers, *, alpha: Annotated[float, Gt(0), Lt(1)] = 0.1, unit: Literal["group", "row"] = "group") -> AbstentionRule:
    """Return a rule: lowest threshold with an expected error <= `alpha`; above 1 if none.

    The loss of a question is 1 - correctness if it is answered, 0 if the model abstains; it can only fall as the threshold rises. With the
    losses l(t) of all questions, N questions in groups of at most m, the rule takes the lowest t with sum of (l(t) - alpha) + (1 - alpha) m
    <= 0. Then E[sum of a fresh group's losses] <= alpha E[its size], for any model and data: the expected share of questions, each of
    which counts once. Of equal groups this is n/(n+1) R(t) + 1/(n+1) <= alpha, as the paper has it. The expectation is over the draw of the
    fitting groups and of the fresh one, over all questions together: not for each category, and not the error among those answered. It
    requires exchangeable groups, as in one random split, and no fresh group larger than m; a distribution shift voids it.

    Args:
        alpha: Allowed share of questions answered wrongly; with N < (1/alpha - 1) m questions nothing can promise it.
        unit: The exchangeable unit. `group`: whole groups (the questions on one image). `row`: single questions, which is tighter and holds
            only where questions are independent.
    """
    largest = int(np.unique(fit.group, return_counts=True)[1].max(initial=1)) if unit == "group" else 1
    questions, loss = len(fit), (1 - fit.correct) * (fit.pred_is_idk == 0)
    # The largest loss above alpha that a fresh unit can add, and how much the losses of the fitting units may come to.
    allowed = alpha * questions - (1 - alpha) * largest
    size = f"{questions:,} questions" + (f" in groups of at most {largest}" if largest > 1 else "")
    if allowed < -1e-9:
        return AbstentionRule(
            np.nextafter(1.0, 2.0),
            f"{size} cannot promise a share of {alpha:g} answered wrongly (at least {int(np.ceil((1 / alpha - 1) * largest - 1e-9)):,} are "
            "needed), so the model abstains on every question.",
            attained=False,
        )
    levels, place = np.unique(fit.confidence, return_inverse=True)
    left = loss.sum() - np.concatenate([[0.0], np.cumsum(np.bincount(place, loss, len(levels)))])
    left[-1] = 0.0
    first = int(np.flatnonzero(left <= allowed + 1e-9)[0])  # up to the rounding of sums
    threshold = float(np.nextafter(levels[first - 1], 2.0)) if first else 0.0
    return AbstentionRule(
        threshold,
        f"The expected share of wrongly answered questions is at most {alpha:g}, calibrated on {size}; this assumes exchangeable {unit}s. "
        f"The model abstains below confidence {threshold:.4g}.",
    )
