"""Contents of charts without axes, for the report and for print."""

from collections.abc import Mapping, Sequence
from typing import Any

from qualm.runners.runtime.colours import ACCENT, INK, MUTED, OVER, RIGHT, SERIES, UNDER
from qualm.runners.runtime.plot import Interval, Plot

Rows = Sequence[Mapping[str, Any]]


def draw_reliability(plot: Plot, rows: Rows, bar: str = ACCENT, *, solid: bool = False) -> None:
    """Draw accuracy per confidence bin (a row each), its gap to confidence, expected ranges."""
    for row in rows:
        ends, accuracy, confidence = (row["bin_low"], row["bin_high"]), row["accuracy"], row["confidence"]
        plot.rect(ends, (0, min(accuracy, confidence)), bar, 1.0 if solid else 0.85)
        plot.rect(ends, (accuracy, confidence), OVER if confidence > accuracy else UNDER, 1.0 if solid else 0.55)
    plot.line([(0, 0), (1, 1)], INK, 1, "3,3")
    for row in rows:
        if row.get("expected_low") is not None and row.get("expected_high") is not None:
            plot.line([(row["confidence"], row["expected_low"]), (row["confidence"], row["expected_high"])], INK, 1.2, opacity=0.7)


def draw_counts(plot: Plot, rows: Rows) -> None:
    """Draw a bar per row: the number of answers in a confidence bin."""
    for row in rows:
        plot.rect((row["bin_low"], row["bin_high"]), (0, row["n"]), MUTED, 0.55)


def draw_risk_coverage(plot: Plot, curve: Sequence[Interval], best: Sequence[Interval], total_risk: float | None) -> None:
    """Draw a curve of (coverage, risk) points, the best possible one (if any), and total risk."""
    if total_risk is not None:
        plot.line([(0, total_risk), (1, total_risk)], MUTED, 1.2, "1,3")
    if best:
        plot.line(best, RIGHT, 1.2, "4,3")
    plot.line(curve, ACCENT, 2)


def draw_set_sizes(plot: Plot, rows: Rows, scores: Sequence[str]) -> None:
    """Draw the share of questions by prediction-set size, one bar per conformal score."""
    wide = 0.84 / len(scores)
    for row in rows:
        left = row["size"] - 0.42 + wide * scores.index(row["score"])
        plot.rect((left, left + wide), (0, row["share"]), SERIES[scores.index(row["score"])], 0.9, gap=False)


def excludes_zero(row: Mapping[str, Any]) -> bool:
    """Return True if a row's interval (`low`, `high`) excludes 0; False if an end is None."""
    if row["low"] is None or row["high"] is None:
        return False
    return bool(row["low"] > 0 or row["high"] < 0)
