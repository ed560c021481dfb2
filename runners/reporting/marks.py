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
    """One number as printed in a table, with marks of its rank and test."""

    value: str
    interval: str = ""
    rank: str = ""
    """`best` or `lead` as in leaderboards, or empty."""
    sign: str = ""
    """▲ △ ▽ ▼: better or worse than the baseline, filled for p < .01."""
    tone: str = ""
    title: str = ""
    why: str = ""


def verdict_mark(test: Mapping[str, Any]) -> tuple[str, str]:
    """Return (mark ▲ △ ▽ ▼, "better" or "worse") of a test; ("", "") if not significant."""
    says = families.verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])
    if says not in ("better", "worse"):
        return "", ""
    sure = test["p_adjusted"] < SURE
    return ("▲" if sure else "△") if says == "better" else ("▼" if sure else "▽"), says


def describe_test(test: Mapping[str, Any]) -> str:
    """Return a test as text: difference, interval, p-value and margin, or why there is none."""
    interval = f" ({between(test, form=signed)})" if is_finite(test["low"]) and is_finite(test["high"]) else ""
    p = f"p = {number(test['p_adjusted'], 4)}" if is_finite(test["p_adjusted"]) else visible(families.describe_comparison(test), 300)
    change = rounded(test, "difference", signed) if is_finite(test["difference"]) else "undefined"
    by = families.compared_quantity(test.get("compared_by"))
    parts = [f"{change}{interval} against {visible(test['a'], 60)}{f' by {by}' if by else ''}", p, families.describe_margin(test)]
    return ", ".join(filter(None, parts))


def difference(test: Mapping[str, Any] | None) -> MarkedNumber:
    if test is None:
        return MarkedNumber("–", title=say.NOT_MEASURED_FOR_BOTH)
    if not is_finite(test["difference"]):
        why = f"; {visible(test['why'], 300)}" if test.get("why") else ""
        return MarkedNumber("undefined", title=f"n = {test['n']:,}{why}")
    interval = between(test, form=signed) if is_finite(test["low"]) and is_finite(test["high"]) else ""
    interval = "; ".join(filter(None, (say.NOT_TESTED if test["p_adjusted"] is None else interval, families.describe_margin(test))))
    sign, tone = verdict_mark(test)
    return MarkedNumber(rounded(test, "difference", signed), interval, "", sign, tone, f"n = {test['n']:,}; {describe_test(test)}")


def is_finite(value: float | None) -> bool:
    """Return true if the value is a finite number, not None or NaN."""
    return value is not None and math.isfinite(value)
