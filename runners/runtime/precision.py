"""How precisely numbers are kept: at float64, neither batches nor threads, processors or BLAS libraries reach what is kept.

Sums in another order move the last bits of a double: some 1e-15 of what a network says, less of what is computed from that. Each
number is rounded once, where it enters a table, to digits far above those, and all that follows is computed from the rounded one.
A number that happens to lie that close to a rounding boundary still falls on either side: one in 10^9 of a model's, one in 10^7
of the scores (`docs/explanation/inference.md`, Precision). At float32 and below a model's own noise is larger than any useful rounding.
"""

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
"""Of what a model says: decimals, and of numbers below 1 significant digits..."""
FINEST = 9
"""...but no more decimals than these, which is also how results are kept: scores, intervals, points of curves."""

EQUAL = 12
"""Decimals of the confidence of multiple choice: the same options in another order have another sum in the last bit, which is no rank; and
of options that are equally likely but for such bits the first is said."""


def kept(value: float) -> float:
    """A logit, a log-probability, an entropy or an estimate as it is kept.

    >>> kept(-12.34567849), kept(-0.012345678), kept(-1.23456e-8), kept(-1e-17)
    (-12.345678, -0.0123457, -1.2e-08, 0.0)
    """
    digits = round(value, DIGITS) if abs(value) >= 1 else significant(value)
    return round(digits, FINEST) + 0.0


def kept_share(value: float) -> float:
    """A probability as it is kept: by the digits of its complement where that is the smaller one.

    >>> kept_share(1.23456789e-30), kept_share(0.25), kept_share(0.9999998765432)
    (1.23457e-30, 0.25, 0.999999877)
    """
    return significant(value) if value <= 0.5 else 1 - kept(1 - value)


def significant(value: float) -> float:
    """A number of any size, in significant digits.

    >>> significant(1.23456789e-30)
    1.23457e-30
    """
    return float(f"{value:.{DIGITS}g}")


def result(value: float) -> float:
    """A score, the end of an interval, a point of a curve as it is kept.

    >>> result(0.1 + 0.2), result(-1e-17)
    (0.3, 0.0)
    """
    return round(float(value), FINEST) + 0.0


def results(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Many at once, each to the bit as `result` has it.

    >>> results(np.array([0.1 + 0.2, -1e-17, np.nan])).tolist()
    [0.3, 0.0, nan]
    """
    scaled = values * 10.0**FINEST
    rounded: NDArray[np.float64] = np.rint(scaled) / 10.0**FINEST
    # Scaling is inexact, which tells only where the next digit may be a 5; and the largest have no such digits.
    with np.errstate(invalid="ignore"):
        unsure = (np.abs(np.abs(scaled - np.trunc(scaled)) - 0.5) < 1e-3) | (np.abs(scaled) > 1e12)
    rounded[unsure] = [result(value) for value in values[unsure].tolist()]
    return rounded + 0.0
