"""The numeric parameters of a perturbation, and where to look for their strength: from nothing to as much as makes sense.

Which value of a parameter does nothing is not declared anywhere: it is looked for, among the ends of the range and 0 and 1, by asking
which of them gives back what went in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from qualm.registry.plugins.rule import LIMITS, Parameter, Plugin, plain_type

Scale = Literal["linear", "log"]
DIGITS = 3
"""Significant digits of a strength: what a spec can say and a label of a variant shows."""
_FAR = 50.0
"""Ends further apart than this factor are searched on a logarithmic scale."""
_TIMES = 4
"""How far beyond the values in use to look, where a parameter has no upper bound."""
_OCTAVES = 8
"""How many halvings of the strong end a logarithmic scale shows above a weak end of 0."""


@dataclass(frozen=True)
class Knob:
    """One numeric parameter."""

    name: str
    whole: bool
    low: float
    """Its lowest value, or one above it where that itself is not allowed."""
    high: float
    open_above: bool
    """Nothing bounds it: `high` is a guess that may be too low."""

    def rounded(self, value: float) -> float:
        """The nearest value that is written as one: whole, or of few digits; within the range."""
        near = float(round(value)) if self.whole else float(f"{value:.{DIGITS}g}")
        inside = min(max(near, self.low), math.inf if self.open_above else self.high)
        return int(inside) if self.whole else inside

    @property
    def step(self) -> float:
        """Of a slider."""
        return 1.0 if self.whole else float(10.0 ** math.floor(math.log10((self.high - self.low) / 100)))


@dataclass(frozen=True)
class Range:
    """Where to search, from the weak end to the strong one, whichever is the larger number."""

    knob: Knob
    weak: float
    strong: float
    scale: Scale

    @property
    def widens(self) -> bool:
        """Whether the strong end may be moved."""
        return self.knob.open_above and self.strong > self.weak

    def wider(self) -> Range:
        """Twice as far."""
        return replace(self, strong=self.knob.rounded(self.strong * 2))

    def place(self, value: float) -> float:
        """A strength on the scale: 0 at the weak end, 1 at the strong one."""
        a, b, x = (self._scaled(v) for v in (self.weak, self.strong, value))
        return (x - a) / (b - a)

    def at(self, place: float) -> float:
        """The strength at a place."""
        a, b = self._scaled(self.weak), self._scaled(self.strong)
        x = a + place * (b - a)
        value = math.exp(x) if self.scale == "log" else x
        return self.knob.rounded(self.weak if place <= 0 else self.strong if place >= 1 else value)

    def _scaled(self, value: float) -> float:
        if self.scale == "linear":
            return value
        return math.log(max(value, max(self.weak, self.strong) / 2**_OCTAVES))


def numeric(plugin: Plugin, args: Mapping[str, Any]) -> list[Knob]:
    """The numeric parameters of a perturbation that has these arguments, in their order; of one that says which, its STRENGTHS."""
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
    """Values that may do nothing."""
    inside = [x for x in (0.0, 1.0) if knob.low < x < knob.high]
    return [knob.low, *inside, *([] if knob.open_above else [knob.high])]


def range_of(knob: Knob, nothing: Sequence[float], now: float, gentler: float, limits: tuple[float, float] | None, scale: str) -> Range:
    """Where to search.

    Args:
        nothing: those of its `candidates` that change nothing.
        now: its value in the spec, which says on which side of nothing to look.
        gentler: that end of the range which changes less, for a parameter without a value of nothing.
        limits: ends that the user wants, in any order.
        scale: `auto`, `linear` or `log`.
    """
    zero = min(nothing, key=lambda x: (abs(x - now), x)) if nothing else gentler
    strong = knob.high if (now > zero or zero == knob.low) and zero != knob.high else knob.low
    if limits is not None:
        low, high = sorted(limits)
        zero, strong = (low, high) if strong > zero else (high, low)
        knob = replace(knob, low=low, high=high, open_above=False)
    small, large = sorted((zero, strong))
    far = small >= 0 and (knob.open_above or (small > 0 and large / small > _FAR and zero == small)) and not knob.whole
    chosen: Scale = "log" if scale == "log" or (scale == "auto" and far) else "linear"
    return Range(knob, zero, strong, chosen)


def written(value: float) -> str:
    """A number as a spec says it: no exponent, no digits that mean nothing.

    >>> written(0.0000312), written(4.0), written(1250.0)
    ('0.0000312', '4', '1250')
    """
    text = format(Decimal(f"{value:.10g}"), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
