"""Search the strength with a given effect, by bisection.

An effect is a mean over samples, so measurements have intervals. The search assumes that effects grow with strength, and gives up if the
intervals contradict that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qualm.runners.review.knobs import Range, format_strength

GRID = 6
"""Number of strengths measured before bisection, ends included."""
WIDENINGS = 6
CLOSE = 0.004
"""Distance on the scale from weak to strong at which bisection ends."""


@dataclass(frozen=True)
class Reading:
    """Measured effect of a perturbation at one strength, with its 95% interval."""

    strength: float
    value: float
    low: float
    high: float
    n: int
    left_out: int = 0
    """Number of samples that the perturbation does not apply to."""


@dataclass(frozen=True)
class SearchOutcome:
    chosen: Reading | None
    """None if no strength has the effect."""

    readings: tuple[Reading, ...]
    why: str
    """Reason why the target is missed."""
    range: Range


Measure = Callable[[Sequence[float]], Sequence[Reading]]
"""Function that measures strengths, each once."""


def search(
    measure: Measure, where: Range, target: float, max_strengths: int = 20, display: Callable[[float], float] = float
) -> SearchOutcome:
    """Return the SearchOutcome: the strength with the target effect, or why there is none.

    Measure a grid; widen the range while its strong end stays below the target and nothing bounds the parameter; then bisect where the
    monotone least-squares curve crosses the target.

    Args:
        max_strengths: maximum number of measured strengths.
        display: converts effects for messages.
    """
    by_strength: dict[float, Reading] = {}

    def ask(strengths: Sequence[float]) -> None:
        new = list(dict.fromkeys(s for s in strengths if s not in by_strength))
        by_strength.update(zip(new, measure(new) if new else [], strict=True))

    ask([where.at(i / (GRID - 1)) for i in range(GRID)])
    for _ in range(WIDENINGS):
        last = _ordered(by_strength, where)[-1]
        if not where.widens or not last.value < target:
            break
        where = where.wider()
        ask([where.strong])
    while len(by_strength) < max_strengths:
        readings = _ordered(by_strength, where)
        if _fault(readings, target, where, display):
            break
        a, b = (where.place(r.strength) for r in _around(readings, target))
        middle = where.at((a + b) / 2)
        if b - a < CLOSE or middle in by_strength:
            break
        ask([middle])
    readings = _ordered(by_strength, where)
    why = _fault(readings, target, where, display)
    chosen = None if why else min(_around(readings, target), key=lambda r: abs(r.value - target))
    if chosen is not None and not chosen.low <= target <= chosen.high:
        why = "the effect jumps over the target here; this is the strength nearest to it"
    return SearchOutcome(chosen, tuple(readings), why, where)


def _ordered(by_strength: dict[float, Reading], where: Range) -> list[Reading]:
    return sorted(by_strength.values(), key=lambda r: where.place(r.strength))


def _fault(readings: Sequence[Reading], target: float, where: Range, display: Callable[[float], float]) -> str:
    """Return why no strength has the target effect; "" if one has."""
    first, last = readings[0], readings[-1]
    if any(r.n == 0 for r in readings):
        return "no sample has both what went in and what came out"
    above = [r for r in readings if r.low > target]
    below = [r for r in readings if r.high < target]
    for early in above:
        late = [r for r in below if where.place(r.strength) > where.place(early.strength)]
        if late:
            return (
                f"the effect is not monotone: above the target at {format_strength(early.strength)} and below it at the stronger "
                f"{format_strength(late[0].strength)}; a narrower range may hold one crossing"
            )
    smooth = monotone([r.value for r in readings], [r.n for r in readings])
    goal = f"where {display(target):.4g} was wanted"
    if smooth[-1] < target:
        return f"even {format_strength(last.strength)} has less effect than asked for: {display(last.value):.4g} {goal}"
    if smooth[0] > target:
        return f"even {format_strength(first.strength)} has more effect than asked for: {display(first.value):.4g} {goal}"
    return ""


def _around(readings: Sequence[Reading], target: float) -> tuple[Reading, Reading]:
    """Return (reading before, reading) where the curve reaches `target`; equal at the start."""
    smooth = monotone([r.value for r in readings], [r.n for r in readings])
    first = next(i for i, value in enumerate(smooth) if value >= target)
    return readings[max(first - 1, 0)], readings[first]


def monotone(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the nearest non-decreasing values, by weighted least squares."""
    from scipy.optimize import isotonic_regression

    fit = isotonic_regression(np.asarray(values, dtype=float), weights=np.maximum(np.asarray(weights, dtype=float), 1e-9))
    return [float(v) for v in fit.x]
