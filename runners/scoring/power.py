"""Smallest difference that a paired comparison can detect.

A two-sided test at level a finds a difference d with probability `power` if d is (t_{1-a/2} + t_power) standard errors of the difference
large; t has one degree of freedom less than there are groups, which are what is resampled. Differences of opposite
sign that the test would find are not counted: at a power worth having there are none.
"""

import math


def standard_error(questions: int, group_size: float, disagreement: float, within: float) -> float:
    """Return the standard error of the difference of two equal paired accuracies.

    sqrt(disagreement / questions * (1 + (group_size - 1) * within)): McNemar's variance times the design effect of groups (Kish, 1965).

    A group has `group_size` questions on average. `disagreement` is the share of questions that one model answers right and the other
    wrong, `within` the correlation of such differences within a group, 0 to 1.

    >>> round(standard_error(400, 1, 0.25, 0.0), 4), round(standard_error(400, 4, 0.25, 0.5), 4)
    (0.025, 0.0395)
    """
    return math.sqrt(disagreement / questions * (1 + (group_size - 1) * within))


def smallest_difference(error: float, groups: int, level: float, power: float) -> float:
    """Return the difference that a test at significance `level` finds with chance `power`.

    Infinite with fewer than two groups. `error` is the standard error of the difference.

    >>> round(smallest_difference(0.025, 400, 0.05, 0.8), 3)
    0.07
    """
    from scipy.stats import t

    return float(error * (t.isf(level / 2, groups - 1) + t.ppf(power, groups - 1))) if groups > 1 else math.inf


def questions_needed(difference: float, questions: int, groups: int, error: float, level: float, power: float) -> int:
    """Return questions needed to detect `difference`; `error`: standard error at `questions`."""
    enough = groups
    for _ in range(50):  # the error falls with the root of the number; the t quantiles settle at once
        reach = smallest_difference(error * math.sqrt(groups / enough), max(2, enough), level, power)
        following = max(2, math.ceil(enough * (reach / difference) ** 2))
        if following == enough:
            break
        enough = following
    return math.ceil(enough * questions / groups)
