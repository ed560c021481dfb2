"""The thresholding baseline of CertainlyUncertain. Chandu et al., 2025 (ICLR)."""

from typing import Literal

import numpy as np

from qualm.runners.contracts.abstentions import AbstentionRule, Answers

CITES = ["chandu2025certainlyuncertain"]

PAPER = np.array([*range(10, 100, 10), *range(91, 100)]) / 100
"""Nine tenths, then nine hundredths above nine tenths: 18 thresholds."""


def thresholding(
    fit: Answers,
    *,
    criterion: Literal["lave_idk_accuracy", "confidence_weighted_accuracy"] = "lave_idk_accuracy",
    grid: Literal["paper", "exact"] = "paper",
) -> AbstentionRule:
    """Return a rule: the lowest threshold with the best score; NaN threshold without answers.

    No promise for other questions: the choice may fit these answers by chance. The paper chose on the test split itself; here
    that is `fit: test`, and labelled optimistic.

    Args:
        criterion: What is maximised (the paper does not say): accuracy with refusals, or the same weighted by confidence.
        grid: `paper`: .1, .2, ... .9, .91, ... .99. `exact`: 0, every confidence that occurs, and just above the highest.
    """
    if not len(fit):
        return AbstentionRule(np.nan, "Nothing to choose a threshold on.", attained=False)
    offered = PAPER if grid == "paper" else np.unique([0.0, *fit.confidence, np.nextafter(fit.confidence.max(), 2.0)])
    values = np.array([_value(fit.abstain_below(t), criterion) for t in offered])
    best = int(np.flatnonzero(values >= values.max() - 1e-12)[0])
    what = {"lave_idk_accuracy": "accuracy with refusals"}.get(criterion, "confidence-weighted accuracy")
    promise = f"{what} {values[best]:.3f} on the {len(fit):,} answers it was chosen on; no promise beyond."
    return AbstentionRule(float(offered[best]), f"Answers below {offered[best]:.4g} decline: {promise}")


def _value(answers: Answers, criterion: str) -> float:
    if criterion == "lave_idk_accuracy":
        return float(answers.correct.mean())
    right = answers.correct > 0
    return float(np.where(right, answers.correct * answers.confidence, -answers.confidence).mean())
