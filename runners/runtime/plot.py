"""Plots written directly as SVG, the one way that static charts are drawn, on pages and in print.

The text is small, inert and equal for equal rows; colours are names that the page or the palette for print defines.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from qualm.runners.runtime.colours import GRID, INK, MUTED, PAPER

Interval = tuple[float, float]
LABEL, TITLE = 10, 11
_TICK, _PAD = 3, 3
_CHARACTER = 6.2
"""Mean width of a digit at LABEL, in pixels."""


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round tick values within [low, high], as d3 chooses them.

    >>> ticks(0, 0.43, 4), ticks(0, 1, 5)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    step = _step(low, high, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _step(low: float, high: float, count: int) -> float:
    if not high > low:
        return 1.0
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next((factor for limit, factor in ((50**0.5, 10), (10**0.5, 5), (2**0.5, 2)) if rough / power >= limit), 1)


def nice_interval(low: float, high: float, count: int = 10) -> Interval:
    """Round [low, high] outward to multiples of the tick step for about `count` ticks.

    >>> nice_interval(0, 0.43)
    (0.0, 0.45)
    """
    step = _step(low, high, count)
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def format_numbers(values: Sequence[float]) -> list[str]:
    """Format numbers with the fewest common decimals that show them exactly and distinctly.

    >>> format_numbers([0, 0.05, 0.1]), format_numbers([-5, 0])
    (['0.00', '0.05', '0.10'], ['−5', '0'])
    """
    decimals = next((d for d in range(9) if len({f"{v:.{d}f}" for v in values}) == len(values) and _exact(values, d)), 9)
    return [f"{v:z.{decimals}f}".replace("-", "−") for v in values]


def _exact(values: Sequence[float], decimals: int) -> bool:
    return all(abs(round(v, decimals) - v) < 1e-9 for v in values)


def format_percent(values: Sequence[float]) -> list[str]:
    """Format shares (1 is 100%) as percentages with common decimals.

    >>> format_percent([-0.5, 0.025])
    ['−50.0%', '2.5%']
    """
    return [f"{text}%" for text in format_numbers([v * 100 for v in values])]


def format_thousands(values: Sequence[float]) -> list[str]:
    """Format each number by itself, with k (thousands) or M (millions) if it is large enough.

    >>> format_thousands([0, 500, 1500, 2e6])
    ['0', '500', '1.5k', '2M']
    """
    return [next((f"{v / size:g}{unit}" for size, unit in ((1e6, "M"), (1e3, "k")) if abs(v) >= size), f"{v:g}") for v in values]


def linear_scale(domain: Interval, pixels: Interval) -> Callable[[float], float]:
    """Return the linear function from `domain` to `pixels`; the middle for an empty domain."""
    (low, high), (start, end) = domain, pixels
    if high == low:
        return lambda _: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def axis_scale(values: Sequence[float], pixels: Interval, *, log: bool = False) -> Callable[[float], float]:
    """Return the function from the range of ascending values to pixels, linear or logarithmic."""
    if not log:
        return linear_scale((values[0], values[-1]), pixels)
    place = linear_scale((math.log(values[0]), math.log(values[-1])), pixels)
    return lambda value: place(math.log(value))


@dataclass
class Plot:
    """SVG shapes of one plot, in pixels from its upper left corner, with scales `x` and `y`."""

    width: float
    height: float
    x: Callable[[float], float]
    y: Callable[[float], float]
    shapes: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)

    def rect(self, x: Interval, y: Interval, fill: str, opacity: float, *, gap: bool = True) -> None:
        """Draw a bar over the value intervals `x` and `y`, with a hairline around it if `gap`."""
        left, right = sorted(map(self.x, x))
        top, bottom = sorted(map(self.y, y))
        line = 'stroke="var(--paper)" stroke-width="0.8" ' if gap else ""
        self.shapes.append(
            f'<rect x="{_px(left)}" y="{_px(top)}" width="{_px(right - left)}" height="{_px(bottom - top)}" fill="{fill}" {line}'
            f'opacity="{opacity:g}" />'
        )

    def line(self, points: Sequence[Interval], stroke: str, width: float, dash: str = "", opacity: float = 1.0) -> None:
        path = "L".join(f"{_px(self.x(x))},{_px(self.y(y))}" for x, y in points)
        more = (f' stroke-dasharray="{dash}"' if dash else "") + (f' opacity="{opacity:g}"' if opacity != 1 else "")
        self.shapes.append(f'<path d="M{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}"{more} />')

    def horizontal(self, y: float, stroke: str, width: float, dash: str) -> None:
        """Draw a line of dash pattern `dash`, `width` thick, at the value `y` across the plot."""
        at = self.y(y)
        self.shapes.append(_rule(0, at, self.width, at, stroke, width).replace(" />", f' stroke-dasharray="{dash}" />'))

    def band(self, points: Sequence[tuple[float, float, float]], fill: str, opacity: float) -> None:
        """Fill the area between `low` and `high`; points are (x, low, high)."""
        around = [(x, high) for x, _, high in points] + [(x, low) for x, low, _ in reversed(points)]
        path = "L".join(f"{_px(self.x(x))},{_px(self.y(y))}" for x, y in around)
        self.shapes.append(f'<path d="M{path}Z" fill="{fill}" opacity="{opacity:g}" />')

    def dots(self, points: Sequence[Interval], fill: str, radius: float, *, outlined: bool = False) -> None:
        """Draw filled circles at points; `outlined` sets them off from lines of their colour."""
        at = ((_px(self.x(x)), _px(self.y(y))) for x, y in points)
        line = ' stroke="var(--paper)"' if outlined else ""
        self.shapes += [f'<circle cx="{x}" cy="{y}" r="{radius:g}" fill="{fill}"{line} />' for x, y in at]

    def ring(self, at: Interval, stroke: str, radius: float) -> None:
        """Draw a circle at (x, y), filled with the color of the paper."""
        x, y = _px(self.x(at[0])), _px(self.y(at[1]))
        self.shapes.append(f'<circle cx="{x}" cy="{y}" r="{radius:g}" fill="{PAPER}" stroke="{stroke}" stroke-width="1.5" />')

    def diamond(self, at: Interval, fill: str, radius: float) -> None:
        x, y = self.x(at[0]), self.y(at[1])
        corners = ((x, y - radius), (x + radius * 0.6, y), (x, y + radius), (x - radius * 0.6, y))
        self.shapes.append(f'<path d="M{"L".join(f"{_px(a)},{_px(b)}" for a, b in corners)}Z" fill="{fill}" />')

    def text(self, x: float, y: float, text: str, anchor: str, fill: str) -> None:
        """Draw text at pixel coordinates; `anchor` is SVG's text-anchor."""
        self.shapes.append(_text(x, y, text, anchor, LABEL, fill))

    def x_axis(self, marks: Sequence[tuple[float, str]], title: str = "") -> None:
        """Draw the x axis from (value, label) marks, without labels that would overlap."""
        self.shapes.append(_rule(0, self.height, self.width, self.height, MUTED, 0.7))
        end = -math.inf
        for value, label in marks:
            at = self.x(value)
            self.shapes.append(_rule(at, self.height, at, self.height + _TICK, MUTED, 1))
            if at - len(label) * _CHARACTER / 2 < end + 4:
                continue
            end = at + len(label) * _CHARACTER / 2
            if label:
                self.shapes.append(_text(at, self.height + _TICK + _PAD + LABEL * 0.8, label, "middle"))
        if title:
            self.shapes.append(_text(self.width / 2, self.height + _TICK + LABEL * 2 + 10, title, "middle", TITLE, INK))

    def y_axis(self, marks: Sequence[tuple[float, str]], title: str = "", *, grid: bool = True, ticks: bool = True) -> None:
        """Draw the y axis from (value, label) marks, with its title, and grid lines if `grid`."""
        if ticks:
            self.shapes.append(_rule(0, 0, 0, self.height, MUTED, 0.7))
        for value, label in marks:
            at = self.y(value)
            if grid:
                self.below.append(_rule(0, at, self.width, at, GRID, 0.6))
            if ticks:
                self.shapes.append(_rule(-_TICK, at, 0, at, MUTED, 1))
            if label:
                self.shapes.append(_text(-_TICK - _PAD, at + LABEL * 0.34, label, "end"))
        if title:
            room = max((len(label) for _, label in marks), default=0) * _CHARACTER
            self.shapes.append(
                f'<g transform="translate({_px(-_TICK - _PAD - room - 7)},{_px(self.height / 2)}) rotate(-90)">'
                f"{_text(0, 0, title, 'middle', TITLE, INK)}</g>"
            )


def group(x: float, y: float, shapes: Sequence[str]) -> str:
    return f'<g transform="translate({_px(x)},{_px(y)})">{"".join(shapes)}</g>'


def stack_plots(plots: Sequence[tuple[float, Plot]], left: float, bottom: float, right: float = 12) -> str:
    """Return an SVG of (top in pixels, plot) pairs below each other, with axis margins."""
    width = left + max(plot.width for _, plot in plots) + right
    height = max(top + plot.height for top, plot in plots) + bottom + 6
    body = "".join(group(left, top + 6, plot.below + plot.shapes) for top, plot in plots)
    size = f'width="{_px(width)}" height="{_px(height)}" viewBox="0 0 {_px(width)} {_px(height)}"'
    return f'<svg {size} role="img">{body}</svg>'


def left_margin(labels: Sequence[str]) -> float:
    """Return the pixels that a y axis's longest label and its title need left of a plot."""
    return max((len(label) for label in labels), default=0) * _CHARACTER + _TICK + _PAD + TITLE + 9


def _rule(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float) -> str:
    return f'<line x1="{_px(x1)}" y1="{_px(y1)}" x2="{_px(x2)}" y2="{_px(y2)}" stroke="{stroke}" stroke-width="{width:g}" />'


def _text(x: float, y: float, text: str, anchor: str, size: float = LABEL, fill: str = MUTED) -> str:
    return f'<text x="{_px(x)}" y="{_px(y)}" text-anchor="{anchor}" font-size="{size:g}" fill="{fill}">{escape(text)}</text>'


def _px(value: float) -> str:
    return f"{value:.1f}".replace("-0.0", "0.0").removesuffix(".0")
