"""Chance levels: the expected value of a metric for an uninformative uncertainty.

The level of a metric is its plugin's function `chance`, over the rows of the value that it stands beside.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from qualm.registry.plugins import registry
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.text import number
from qualm.runners.scoring.measuring.labels import plugin_of


def none_beats_chance(best: Mapping[str, Any]) -> str:
    """Return a clause if a ranking's best is not significantly better than chance; else "".

    >>> row = {"metric": "auroc", "value": 0.28, "low": 0.22, "high": 0.34, "chance": 0.5}
    >>> none_beats_chance(row)
    'none beats chance (0.500), and the ranking is inverted: the whole interval of the best is worse than chance'
    >>> none_beats_chance(row | {"value": 0.52, "low": 0.45, "high": 0.6}), none_beats_chance(row | {"value": 0.7, "low": 0.6, "high": 0.8})
    ('the best is not significantly better than chance (0.500): its interval contains it', '')
    """
    gains = _gains(best)
    if not gains or min(gains.values()) > 0:
        return ""
    if max(gains.values()) < 0 and len(gains) > 1:
        template = say.NONE_BEATS_CHANCE_INVERTED
    else:
        template = say.NONE_BEATS_CHANCE if gains["value"] <= 0 else say.NONE_SIGNIFICANTLY_BEATS_CHANCE
    return template.format(chance=number(best["chance"]))


def is_no_better_than_chance(row: Mapping[str, Any]) -> bool:
    """Return True if a candidate's value is at chance or worse; False without a chance level."""
    return _gains(row).get("value", 1.0) <= 0


def _gains(row: Mapping[str, Any]) -> dict[str, float]:
    """Return end (low, value, high) -> how much better than chance it is; {} if unknown."""
    better = _higher_is_better(row["metric"])
    if row.get("chance") is None or better is None:
        return {}
    sign = 1 if better else -1
    return {end: sign * (row[end] - row["chance"]) for end in ("low", "value", "high") if row[end] is not None}


def _higher_is_better(label: str) -> bool | None:
    try:
        better: bool | None = registry.get("metrics", plugin_of(label)).declares.get("higher_is_better")
    except registry.PluginError:  # of another checkout
        return None
    return better


def describe_chance_levels(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence with the chance level of each metric in these scores; "" if unknown.

    >>> rows = [{"metric": "auroc[p_true]", "chance": 0.5}, {"metric": "auarc", "chance": 0.7}, {"metric": "auarc", "chance": 0.75}]
    >>> describe_chance_levels(rows)
    'chance level: auroc 0.500, auarc 0.700 to 0.750'
    """
    levels: dict[str, set[float]] = {}
    for row in rows:
        if row.get("chance") is not None:
            levels.setdefault(plugin_of(row["metric"]), set()).add(row["chance"])
    ends = {name: dict.fromkeys((number(min(of)), number(max(of)))) for name, of in levels.items()}
    texts = [f"{name} {' to '.join(of)}" for name, of in ends.items()]
    return say.CHANCE_LEVEL.format(levels=", ".join(texts)) if texts else ""
