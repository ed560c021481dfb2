"""Counts of yes-or-no answers and AMBER's rounding.

They read two marks of a judge that tells yes from no: `said` (1 yes, 0 no, -1 neither) and `truth`.
"""

import numpy as np

from qualm.runners.contracts.metrics import Floats, ratio

ANSWERS = {"yes": 1.0, "no": 0.0}
AMBER_COUNT = 0.001
"""Constant that AMBER's script adds to every count that it divides by."""


def positives(said: Floats, truth: Floats, positive: str) -> tuple[Floats, Floats]:
    """Return two (n,) arrays of 0 and 1: `positive` was said, and `positive` is the reference."""
    of_said, of_truth = ((column == ANSWERS[positive]).astype(np.float64) for column in (said, truth))
    return of_said, of_truth


def share(part: Floats, whole: Floats, convention: str) -> Floats:
    """Return `part / whole`, NaN if whole is 0; for AMBER over whole + 0.001, to 0.1%."""
    return ratio(part, whole) if convention == "exact" else rounded(part / (whole + AMBER_COUNT))


def rounded(shares: Floats) -> Floats:
    """Return shares rounded to a tenth of a per cent, as Python's `round` does."""
    return np.array([round(value * 100, 1) / 100 for value in shares.tolist()])
