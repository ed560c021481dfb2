"""One printed number of a table, with what a paired test says of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.text import between, number, rounded, signed, visible
from qualm.runners.scoring import families

CALIBRATION = ("ece_idk", "ece")
SURE = 0.01
"""Differences with a corrected p-value below this have a filled mark."""


@dataclass
class MarkedNumber:
    """One value of the table as it is printed."""

    value: str
    interval: str = ""
    rank: str = ""
    """`best` or `lead` as in leaderboards, or empty."""
    sign: str = ""
    """▲ △ ▽ ▼: better or worse than the baseline, filled for p < .01."""
    tone: str = ""
    title: str = ""
    why: str = ""
    """Why the value is undefined."""


def verdict(test: Mapping[str, Any]) -> tuple[str, str]:
    """Return ▲ △ ▽ ▼ and its tone from corrected p-value and direction; empty if not significant."""
    says = families.verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
    if says not in ("better", "worse"):
        return "", ""
    sure = test["p_adjusted"] < SURE
    return ("▲" if sure else "△") if says == "better" else ("▼" if sure else "▽"), says


def test_in_words(test: Mapping[str, Any]) -> str:
    """Return difference, interval, p-value, and what is found about a margin, or the reason why there is no test."""
    interval = ""
    if finite(test["low"]) and finite(test["high"]):
        interval = f" ({between(test, form=signed)})"
    p = f"p = {number(test['p_adjusted'], 4)} corrected" if finite(test["p_adjusted"]) else visible(families.in_words(test), 300)
    change = rounded(test, "difference", signed) if finite(test["difference"]) else "undefined"
    by = families.measured_by(test.get("compared_by"))
    parts = [f"{change}{interval} against {visible(test['a'], 60)}{f' by {by}' if by else ''}", p, families.within_margin(test)]
    return ", ".join(filter(None, parts))


def difference(test: Mapping[str, Any] | None) -> MarkedNumber:
    if test is None:
        return MarkedNumber("–", title=say.NOT_MEASURED_FOR_BOTH)
    if not finite(test["difference"]):
        why = f"; {visible(test['why'], 300)}" if test.get("why") else ""
        return MarkedNumber("undefined", title=f"n = {test['n']:,}{why}")
    has_interval = finite(test["low"]) and finite(test["high"])
    interval = between(test, form=signed) if has_interval else ""
    interval = say.NOT_TESTED if test["p_adjusted"] is None else interval
    interval = "; ".join(filter(None, (interval, families.within_margin(test))))
    sign, tone = verdict(test)
    return MarkedNumber(rounded(test, "difference", signed), interval, "", sign, tone, f"n = {test['n']:,}; {test_in_words(test)}")


def finite(value: float | None) -> bool:
    """Return true if there is a finite value."""
    return value is not None and math.isfinite(value)
