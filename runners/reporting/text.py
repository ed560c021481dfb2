"""Text and numbers as a reader sees them, and metric labels taken apart.

Dataset text is hostile: it may hold HTML, direction overrides and control characters. Jinja2 escapes the HTML; what escaping leaves
alone is made visible (`qualm.registry.text`).
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from qualm.registry.plugins import registry
from qualm.registry.plugins.declarations import for_arguments
from qualm.registry.text import MAX_LENGTH as MAX_LENGTH
from qualm.registry.text import visible as visible
from qualm.runners.scoring.measuring.labels import LabelParts, split_label
from qualm.runners.scoring.measuring.labels import display_name as display_name
from qualm.runners.scoring.measuring.labels import heading_name as heading_name
from qualm.runners.scoring.scored_share import format_share

DIGITS = 3
"""Decimals of a measure without an interval; a share is a fraction of 1, never times 100."""
MAX_DIGITS = 4
"""Decimals of a measure, however narrow its interval."""


def number(value: float | None, digits: int = DIGITS) -> str:
    """Return a number as text in fixed digits; "undefined" for None or NaN, "∞" for infinity."""
    if value is None or math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction of 1 as text in per cent, `80.1%`."""
    text = number(100 * fraction, digits)
    return f"{text}%" if math.isfinite(fraction) else text


def decimals(row: Mapping[str, Any]) -> int:
    """Return the number of decimals that a row's interval supports.

    Up to the first digit of a quarter of its width, about the standard error; those of its column, if the row has `decimals`. Without an
    interval, or with one of no width, `DIGITS`.

    >>> [decimals({"low": 0.5, "high": high}) for high in (0.5042, 0.54, 0.8, 60.0)], decimals({"low": None, "high": None})
    ([3, 2, 2, 0], 3)
    """
    if (of_column := row.get("decimals")) is not None:
        return int(of_column)
    low, high = row.get("low"), row.get("high")
    if low is None or high is None or not 0 < high - low < math.inf:
        return DIGITS
    return min(max(math.ceil(-math.log10((high - low) / 4) - 1e-9), 0), MAX_DIGITS)


def rounded(row: Mapping[str, Any], key: str = "value", form: Callable[[float | None, int], str] = number) -> str:
    """Return `row[key]` as text by `form`, in as many decimals as the row's interval supports.

    >>> rounded({"value": 0.9333, "low": 0.9113, "high": 0.9502}), rounded({"value": 0.9333, "low": None, "high": None})
    ('0.933', '0.933')
    """
    return form(row[key], decimals(row))


def between(row: Mapping[str, Any], digits: int | None = None, form: Callable[[float, int], str] = number) -> str:
    """Return a row's interval as text, `0.91 – 0.93`; "" if it has none.

    >>> between({"low": 0.5, "high": 0.625}, 1, form=percent), between({"low": 0.5, "high": 0.625}), between({"low": None, "high": None})
    ('50.0% – 62.5%', '0.50 – 0.62', '')
    """
    if any(row[end] is None or math.isnan(row[end]) for end in ("low", "high")):
        return ""
    digits = decimals(row) if digits is None else digits
    return f"{form(row['low'], digits)} {'to' if form is signed else '–'} {form(row['high'], digits)}"


def aside(text: str) -> str:
    """Return a text in brackets after a space, to follow a value; "" for an empty text."""
    return f" ({text})" if text else ""


def counted(row: Mapping[str, Any]) -> str:
    """Return a row's n, unscored answers and groups as text, and why it has no interval."""
    share = row.get("scored_share")
    unscored = f", unscored {row['n_unscored']:,.0f}{aside(f'scored {format_share(share)}' if share is not None else '')}"
    unscored = unscored if row["n_unscored"] else ""
    groups = f", {row['n_groups']:,.0f} groups" if row.get("n_groups") else ""
    return f"n = {row['n']:,.0f}{unscored}{groups}" + (f"; no interval: {row['why_no_interval']}" if row.get("why_no_interval") else "")


def describe_coverage(row: Mapping[str, Any]) -> str:
    """Return coverage's target and band as text, and the value's side of it; else "".

    >>> describe_coverage({"value": 0.987, "target": 0.9, "band_low": 0.866, "band_high": 0.931, "promise": "at least 0.9 on average"})
    'target 0.90, band 0.87 – 0.93: above'
    >>> describe_coverage({"value": 0.9})
    ''
    """
    ends = [row.get(key) for key in ("value", "target", "band_low", "band_high")]
    if any(end is None or math.isnan(end) for end in ends) or str(row.get("promise") or "").startswith("nothing"):
        return ""
    side = "above" if row["value"] > row["band_high"] else "below" if row["value"] < row["band_low"] else "within"
    band = {"low": row["band_low"], "high": row["band_high"]}
    return f"target {number(row['target'], decimals(band))}, band {between(band)}: {side}"


def small(value: float) -> str:
    """Return a difference that may be tiny as text: 0, 3.1e−16 or 0.0123."""
    if value == 0:
        return "0"
    return (f"{value:.1e}" if abs(value) < 1e-4 else f"{value:.4f}").replace("-", "−")


def signed(value: float | None, digits: int = DIGITS) -> str:
    """Return a difference as text with its sign; "undefined" for None or NaN."""
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and text.strip("0.") else text


@dataclass(frozen=True, kw_only=True)
class Label(LabelParts):
    """A metric label's parts, such as `ece@bins=10[published/lac]`, and facts on the metric."""

    text: str
    higher_is_better: bool | None = None
    summary: str = ""
    compared_by: str = ""
    """The unbiased metric by which models are compared; such a metric is not ranked."""

    @property
    def title(self) -> str:
        return heading_name(self.plugin)

    @property
    def arrow(self) -> str:
        return {True: "↑", False: "↓", None: ""}[self.higher_is_better]


def read_label(text: str, settings: Collection[str], calibrators: Collection[str] = ()) -> Label:
    """Return a metric label as Label; without facts on it if its plugin does not exist here."""
    own = split_label(text, settings, calibrators)
    try:
        plugin = for_arguments(registry.get("metrics", own.plugin), dict(part.partition("=")[::2] for part in own.sweep.split(",")))
        better, summary, by = plugin.declares.get("higher_is_better"), plugin.summary, str(plugin.declares.get("compared_by") or "")
    except registry.PluginError:  # a table of another checkout: its numbers can be shown, their direction is unknown
        better, summary, by = None, "", ""
    return Label(**vars(own), text=text, higher_is_better=better, summary=summary, compared_by=by)


def natural(text: str) -> tuple[float | str, ...]:
    """Return a sort key under which `radius=2` comes before `radius=10`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)  # words and numbers in turn, words first
    return tuple(float(part) if i % 2 else part for i, part in enumerate(parts))
