"""Find numeric parameters of a perturbation, and ranges for searching their strength.

No declaration says which value has no effect: the ends of the range, 0 and 1 are tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from qualm.registry.plugins.registry import LIMITS, Parameter, Plugin, plain_type

Scale = Literal["linear", "log"]
DIGITS = 3
"""Significant digits of a strength, in specs and labels."""
_FAR = 50.0
"""Ratio of ends above which a search uses a logarithmic scale."""
_TIMES = 4
"""Factor beyond the values in use, for parameters without an upper bound."""
_OCTAVES = 8
"""Halvings of the strong end on a logarithmic scale, above a weak end of 0."""


@dataclass(frozen=True)
class Knob:
    """A numeric parameter of a perturbation, with its lowest and highest value."""

    name: str
    whole: bool
    low: float
    """Lowest value, or slightly above an excluded bound."""
    high: float
    open_above: bool
    """True if there is no upper bound: `high` is a guess."""

    def rounded(self, value: float) -> float:
        """Return the value rounded to an integer or few digits, within the range."""
        near = float(round(value)) if self.whole else float(f"{value:.{DIGITS}g}")
        inside = min(max(near, self.low), math.inf if self.open_above else self.high)
        return int(inside) if self.whole else inside

    @property
    def step(self) -> float:
        return 1.0 if self.whole else float(10.0 ** math.floor(math.log10((self.high - self.low) / 100)))


@dataclass(frozen=True)
class Range:
    """Range of strengths to search, from the weak to the strong end."""

    knob: Knob
    weak: float
    strong: float
    scale: Scale

    @property
    def widens(self) -> bool:
        """Return true if the strong end may be moved outwards."""
        return self.knob.open_above and self.strong > self.weak

    def wider(self) -> Range:
        return replace(self, strong=self.knob.rounded(self.strong * 2))

    def place(self, value: float) -> float:
        """Return where a strength lies: 0 = weak end, 1 = strong end; beyond them not clipped."""
        a, b, x = (self._scaled(v) for v in (self.weak, self.strong, value))
        return (x - a) / (b - a)

    def at(self, position: float) -> float:
        """Return the rounded strength at a position from 0 (weakest) to 1 (strongest)."""
        a, b = self._scaled(self.weak), self._scaled(self.strong)
        x = a + position * (b - a)
        value = math.exp(x) if self.scale == "log" else x
        return self.knob.rounded(self.weak if position <= 0 else self.strong if position >= 1 else value)

    def _scaled(self, value: float) -> float:
        if self.scale == "linear":
            return value
        return math.log(max(value, max(self.weak, self.strong) / 2**_OCTAVES))


def numeric_knobs(plugin: Plugin, args: Mapping[str, Any]) -> list[Knob]:
    """Return the numeric parameters of a perturbation as knobs; STRENGTHS alone if declared."""
    names = plugin.declares.get("STRENGTHS")
    parameters = [p for p in plugin.parameters if names is None or p.name in names]
    return [knob for p in parameters if (knob := _knob(p, args.get(p.name, p.default))) is not None]


def _knob(parameter: Parameter, value: Any) -> Knob | None:
    annotation: Any = parameter.annotation
    bounds: list[Any] = []
    if hasattr(annotation, "__metadata__"):
        annotation, bounds = get_args(annotation)[0], [b for b in annotation.__metadata__ if b not in LIMITS]
    kinds = set(map(plain_type, get_args(annotation))) if get_origin(annotation) not in (None, Literal) else {annotation}
    kinds.discard(type(None))
    if not kinds <= {int, float} or not isinstance(value, int | float) or isinstance(value, bool):
        return None
    whole = float not in kinds
    default = parameter.default if isinstance(parameter.default, int | float) else value
    size = max(abs(float(value)), abs(float(default)), 1.0 if whole else 0.0) or 1.0
    low, high, open_above = 0.0 if value >= 0 else -_TIMES * size, _TIMES * size, True
    for bound in bounds:
        gap = (1.0 if whole else size / 1000) if isinstance(bound, Gt | Lt) else 0.0
        if isinstance(bound, Ge | Gt):
            low = _number(bound.ge if isinstance(bound, Ge) else bound.gt) + gap
        elif isinstance(bound, Le | Lt):
            high, open_above = _number(bound.le if isinstance(bound, Le) else bound.lt) - gap, False
    return Knob(parameter.name, whole, low, high, open_above)


def _number(bound: Any) -> float:
    return float(bound)


def candidates(knob: Knob) -> list[float]:
    """Return values of a knob that may have no effect: its bounds, and 0 and 1 if within."""
    inside = [x for x in (0.0, 1.0) if knob.low < x < knob.high]
    return [knob.low, *inside, *([] if knob.open_above else [knob.high])]


def search_range(
    knob: Knob, without_effect: Sequence[float], current: float, gentler: float, user_limits: tuple[float, float] | None, scale: str
) -> Range:
    """Return the Range from a strength without effect to the strong end or user's limits.

    Args:
        without_effect: `candidates` without effect.
        current: value in the spec, which determines the side to search.
        gentler: end with the smaller effect, for parameters without a value of no effect.
        user_limits: ends given by the user, in any order.
        scale: `auto`, `linear` or `log`.
    """
    zero = min(without_effect, key=lambda x: (abs(x - current), x)) if without_effect else gentler
    strong = knob.high if (current > zero or zero == knob.low) and zero != knob.high else knob.low
    if user_limits is not None:
        low, high = sorted(user_limits)
        zero, strong = (low, high) if strong > zero else (high, low)
        knob = replace(knob, low=low, high=high, open_above=False)
    small, large = sorted((zero, strong))
    far = small >= 0 and (knob.open_above or (small > 0 and large / small > _FAR and zero == small)) and not knob.whole
    chosen: Scale = "log" if scale == "log" or (scale == "auto" and far) else "linear"
    return Range(knob, zero, strong, chosen)


def format_strength(value: float) -> str:
    """Return a number as text for a spec, without exponent and superfluous digits.

    >>> format_strength(0.0000312), format_strength(4.0), format_strength(1250.0)
    ('0.0000312', '4', '1250')
    """
    text = format(Decimal(f"{value:.10g}"), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
