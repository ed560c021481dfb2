"""Altair charts as small, stable, inert SVG that follows the page's colours.

Vega's SVG numbers its clip paths from a counter of the process, paints its own background and repeats every datum in
`aria-label`. Here a drawing is reduced to shapes and text, its ids are named after the figure, and colours stay CSS
variables, so that the same rows give the same bytes and one drawing serves light, dark and print.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from qualm.runners.runtime.colours import GRID, INK, MUTED

_SVG = "{http://www.w3.org/2000/svg}"
_KEPT = {
    "svg": ("width", "height", "viewBox"),
    "g": ("transform", "clip-path", "opacity"),
    "path": ("transform", "d"),
    "line": ("transform", "x1", "x2", "y1", "y2"),
    "rect": ("transform", "x", "y", "width", "height", "rx"),
    "text": ("transform", "text-anchor", "font-size", "font-weight", "font-style"),
    "tspan": ("x", "y", "dx", "dy"),
    "defs": (),
    "clipPath": ("id",),
}
_PAINT = ("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "fill-opacity", "stroke-opacity")
_NUMBER = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")


P = ParamSpec("P")


def unchecked(function: Callable[P, str]) -> Callable[P, str]:
    """Build a chart without Altair's checks against its JSON Schema at every step: most of the time, and tests did it."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> str:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return function(*args, **kwargs)

    return wrapped


def draw(chart: Any, name: str) -> str:
    """Return SVG text of an Altair chart, to stand inside HTML. `name` must be the figure's own within the page."""
    import vl_convert

    specification = chart.configure(**theme()).to_dict(validate=False)
    return tidy(vl_convert.vegalite_to_svg(specification), name)


def theme() -> dict[str, Any]:
    """Return a theme with thin axes, no frame and small numbers."""
    import altair as alt

    axis = alt.AxisConfig(
        domainColor=MUTED,
        tickColor=MUTED,
        gridColor=GRID,
        labelColor=MUTED,
        titleColor=INK,
        labelFont="sans-serif",
        titleFont="sans-serif",
        labelFontSize=10,
        titleFontSize=11,
        titleFontWeight="normal",
        tickSize=3,
        titlePadding=6,
        domainWidth=0.7,
        gridWidth=0.6,
        labelLimit=150,
    )
    return {
        "axis": axis,
        "view": alt.ViewConfig(stroke=None),
        "background": "transparent",
        "padding": {"left": 4, "right": 8, "top": 5, "bottom": 4},
        "aria": False,
    }


def tidy(text: str, name: str) -> str:
    """Keep shapes and text, drop everything else, and name ids after the figure."""
    root = ET.fromstring(text)  # noqa: S314 - our own drawing, written a moment ago in this process
    ids: dict[str, str] = {}
    for element in root.iter(f"{_SVG}clipPath"):
        ids[element.get("id", "")] = f"{name}-{len(ids)}"
    clean = _copy(root, ids)
    assert clean is not None
    clean.set("role", "img")
    return ET.tostring(clean, encoding="unicode")


def _copy(element: ET.Element, ids: dict[str, str]) -> ET.Element | None:
    tag = element.tag.removeprefix(_SVG)
    if tag not in _KEPT or element.get("display") == "none":
        return None
    attributes: dict[str, str] = {}
    for key in (*_KEPT[tag], *(_PAINT if tag != "svg" else ())):
        value = element.get(key)
        if value is None or (key in ("opacity", "stroke-width") and value == "1"):
            continue
        if key == "id":
            value = ids[value]
        elif key == "clip-path":
            value = f"url(#{ids[value.removeprefix('url(#').removesuffix(')')]})"
        elif key in ("transform", "d", "x", "y", "width", "height", "x1", "x2", "y1", "y2"):
            value = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}".replace("-0.0", "0"), value)
        if (key, value) != ("transform", "translate(0,0)"):
            attributes[key] = value
    copy = ET.Element(tag, dict(sorted(attributes.items())))
    copy.text = element.text
    children = [c for child in element if (c := _copy(child, ids)) is not None]
    if tag == "g" and not children:
        return None
    if tag == "path" and "fill" not in attributes and "stroke" not in attributes:
        return None  # Vega's unpainted paths are hit areas
    if tag == "g" and not attributes and len(children) == 1:
        return children[0]
    copy.extend(children)
    return copy
