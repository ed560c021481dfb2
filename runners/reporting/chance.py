"""Chance levels: the expected value of a metric for an uninformative uncertainty.

The level of a metric is its plugin's function `chance`, over the rows of the value that it stands beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qualm.registry.plugins import registry
from qualm.runners.reporting.text import number
from qualm.runners.scoring.measuring.labels import plugin_of


def none_beats_chance(best: Mapping[str, Any]) -> str:
    """Return in words that the best candidate of a ranking is not better than chance; empty if it is, or without a chance level.

    Args:
        best: The first row of a column of RANKINGS.

    >>> row = {"metric": "auroc", "value": 0.28, "low": 0.22, "high": 0.34, "chance": 0.5}
    >>> none_beats_chance(row)
    'none beats chance (0.500), and the ranking is inverted: the whole interval of the best is below chance'
    >>> none_beats_chance(row | {"value": 0.52, "low": 0.45, "high": 0.6}), none_beats_chance(row | {"value": 0.7, "low": 0.6, "high": 0.8})
    ('none is significantly better than chance (0.500): the interval of the best contains it', '')
    """
    better = _higher_is_better(best["metric"])
    if best.get("chance") is None or better is None:
        return ""
    level, sign = best["chance"], 1 if better else -1
    gains = [None if best[end] is None else sign * (best[end] - level) for end in ("low", "value", "high")]
    known = [gain for gain in gains if gain is not None]
    if min(known) > 0:
        return ""
    if max(known) < 0 and len(known) > 1:
        return f"none beats chance ({number(level)}), and the ranking is inverted: the whole interval of the best is below chance"
    if sign * (best["value"] - level) <= 0:
        return f"none beats chance ({number(level)})"
    return f"none is significantly better than chance ({number(level)}): the interval of the best contains it"


def _higher_is_better(label: str) -> bool | None:
    try:
        better: bool | None = registry.get("metrics", plugin_of(label)).declares.get("higher_is_better")
    except registry.PluginError:  # of another checkout
        return None
    return better


def in_words(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the levels of the metrics of these scores in one sentence; empty where none is known.

    >>> in_words([{"metric": "auroc[p_true]", "chance": 0.5}, {"metric": "auarc", "chance": 0.7}, {"metric": "auarc", "chance": 0.75}])
    'chance level: auroc 0.500, auarc 0.700 to 0.750'
    """
    levels: dict[str, set[float]] = {}
    for row in rows:
        if row.get("chance") is not None:
            levels.setdefault(plugin_of(row["metric"]), set()).add(row["chance"])
    ends = {name: dict.fromkeys((number(min(of)), number(max(of)))) for name, of in levels.items()}
    texts = [f"{name} {' to '.join(of)}" for name, of in ends.items()]
    return f"chance level: {', '.join(texts)}" if texts else ""
