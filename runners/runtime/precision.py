"""Round stored numbers so that batches, threads, processors and BLAS libraries do not change them, at float64.

The order of a sum changes the last bits of a double, by about 1e-15 of a network's output. Each number is rounded once, when it enters a
table, far above those bits; later results use the rounded number. One number in 10^9 of a model's output and one in 10^7 of the scores is
so close to a rounding boundary that it still differs (`docs/explanation/inference.md`, Precision).
"""

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
"""Decimals of a model's numbers; significant digits below 1."""
FINEST = 9
"""Maximum decimals of a model's numbers, and decimals of results: scores, intervals, points of curves."""

EQUAL = 12
"""Decimals of confidence in multiple choice: sums over the same options in another order differ in the last bit, which must not
decide ranks or which of equally likely options is first."""


def stored_value(value: float) -> float:
    """Round for storage: to 6 decimals, below 1 to 6 significant digits, at most 9 decimals.

    >>> stored_value(-12.34567849), stored_value(-0.012345678), stored_value(-1.23456e-8), stored_value(-1e-17)
    (-12.345678, -0.0123457, -1.2e-08, 0.0)
    """
    digits = round(value, DIGITS) if abs(value) >= 1 else significant(value)
    return round(digits, FINEST) + 0.0


def stored_share(value: float) -> float:
    """Round a probability to 6 significant digits; above 0.5, 1 - p as `stored_value` does.

    >>> stored_share(1.23456789e-30), stored_share(0.25), stored_share(0.9999998765432)
    (1.23457e-30, 0.25, 0.999999877)
    """
    return significant(value) if value <= 0.5 else 1 - stored_value(1 - value)


def significant(value: float) -> float:
    """Round a number to 6 significant digits.

    >>> significant(1.23456789e-30)
    1.23457e-30
    """
    return float(f"{value:.{DIGITS}g}")


def round_result(value: float) -> float:
    """Round a score, an interval's end or a point of a curve to 9 decimals; -0.0 becomes 0.0.

    >>> round_result(0.1 + 0.2), round_result(-1e-17)
    (0.3, 0.0)
    """
    return round(float(value), FINEST) + 0.0


def round_results(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round an array as `round_result` rounds each of its numbers.

    >>> round_results(np.array([0.1 + 0.2, -1e-17, np.nan])).tolist()
    [0.3, 0.0, nan]
    """
    scaled = values * 10.0**FINEST
    rounded: NDArray[np.float64] = np.rint(scaled) / 10.0**FINEST
    # Scaling is inexact, which matters where the next digit may be a 5; the largest numbers have no such digits.
    with np.errstate(invalid="ignore"):
        unsure = (np.abs(np.abs(scaled - np.trunc(scaled)) - 0.5) < 1e-3) | (np.abs(scaled) > 1e12)
    rounded[unsure] = [round_result(value) for value in values[unsure].tolist()]
    return rounded + 0.0
