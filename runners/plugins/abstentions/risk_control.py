"""Conformal risk control. Angelopoulos, Bates, Fisch, Lei, Schuster, 2024 (ICLR; preprint 2022)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Lt

from qualm.runners.contracts.abstentions import AbstentionRule, Answers, Floats

CITES = ["angelopoulos2024conformal"]


def risk_control(fit: Answers, *, alpha: Annotated[float, Gt(0), Lt(1)] = 0.1, unit: Literal["group", "row"] = "group") -> AbstentionRule:
    """The lowest threshold that keeps the expected share of questions answered wrongly at or below `alpha`, with a guarantee.

    The loss of a question is 1 - correctness if it is answered, 0 if the model declines; it can only fall as the
    threshold rises. Over n units with mean loss R(t), the rule takes the lowest t with n/(n+1) R(t) + 1/(n+1) <= alpha.
    Then, for a fresh unit, E[loss] <= alpha, whatever the model and the data: an expectation over the draw of both the
    fitting units and the fresh one, for all questions together, not for each category, and not the error among those
    answered. It takes fitting and fresh units to be exchangeable, as of one random split; a shift voids it.

    Args:
        alpha: Allowed share of questions answered wrongly; with n < 1/alpha - 1 units nothing can promise it.
        unit: What is exchangeable. `group`: whole groups (questions on one image), each with its mean loss. `row`: single
            questions, which gains precision and holds only where they are independent.
    """
    n_units, total, levels = _losses(fit, unit)
    if 1 / (n_units + 1) > alpha:
        return AbstentionRule(
            np.nextafter(1.0, 2.0),
            f"{n_units:,} {unit}s cannot promise a share of {alpha:g} answered wrongly (at least {int(np.ceil(1 / alpha - 1)):,} are "
            "needed), so every question is declined.",
            attained=False,
        )
    # up to rounding: sums of means of groups miss equality by it
    allowed = total + 1 <= alpha * (n_units + 1) + 1e-9
    highest = float(levels[int(np.flatnonzero(allowed)[0])])
    threshold = 0.0 if highest == -np.inf else float(np.nextafter(highest, 2.0))
    return AbstentionRule(
        threshold,
        f"Expected share of questions answered wrongly at most {alpha:g}, by {n_units:,} exchangeable {unit}s; answers below "
        f"{threshold:.4g} decline.",
    )


def _losses(fit: Answers, unit: str) -> tuple[int, Floats, Floats]:
    """Number of units, and the sum of their losses when answers of confidence up to each level are declined, levels rising."""
    loss = (1 - fit.correct) * (fit.pred_is_idk == 0)
    if unit == "group":
        member, size = np.unique(fit.group, return_inverse=True, return_counts=True)[1:]
        loss, n = loss / size[member], len(size)
    else:
        n = len(fit)
    levels, place = np.unique(fit.confidence, return_inverse=True)
    gone = np.bincount(place, loss, len(levels))
    total = np.concatenate([[loss.sum()], loss.sum() - np.cumsum(gone)])
    total[-1] = 0.0
    return n, total, np.concatenate([[-np.inf], levels])
