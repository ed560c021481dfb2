"""Group-conditional conformal sets: calibration size, threshold and coverage of each group of questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from qualm.registry import OPTION_PARTS
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, number, rounded, visible, words

HEADER = ["model", "score", "group", "calibration n", "test n", "threshold", "coverage", "expected (95%)", "", "mean size"]
NOTE = (
    "Each group has a threshold from its own calibration questions, so its sets contain the reference answer for at least the target "
    "share of questions, on average over calibration samples that are exchangeable with the test questions of the same group. For "
    "questions in clusters this holds for a random question of a new cluster, each cluster having equal weight. Clean inputs only. "
    "Expected: the range that contains coverage on this many test questions in 95% of such samples; one group in forty falls below it by "
    "chance. “none”: a group with too few calibration questions has no threshold; its options are included in every set."
)


def coverage_by_part(results: Report) -> list[Sheet]:
    """Return a sheet for each dataset and conformal setting with `per:`."""
    rows = results.thresholds.filter(pl.col("per").is_not_null())
    sheets = []
    for (dataset, setting), part in rows.group_by(["dataset", "setting"], maintain_order=True):
        of = list(part.iter_rows(named=True))
        per = of[0]["per"]
        title = f"Coverage by {visible(OPTION_PARTS.get(per, per), 80)}: {visible(str(dataset), 80)} · {visible(str(setting), 80)}"
        sheets.append(Sheet(title, HEADER, list(_rows(of))))
    if sheets:
        sheets[0].note = NOTE
    return sheets


def _rows(of: list[dict[str, Any]]) -> Iterator[list[str]]:
    for r in of:
        part = "unknown" if r["part"] is None else r["part"]
        threshold = "none" if r["threshold"] is None else number(r["threshold"])
        in_groups = f" in {r['n_groups']:,} groups" if (r["n_groups"] or r["n_calibration"]) < r["n_calibration"] else ""
        calibrate = f"{r['n_calibration']:,}{in_groups}"
        cells = [r["model"], words(r["score"]), part, calibrate, f"{r['n_test']:,}", threshold, *_coverage(r)]
        yield [visible(cell, 120) for cell in cells]


def _coverage(r: dict[str, Any]) -> list[str]:
    if r["coverage"] is None:
        return ["undefined" if r["threshold"] is None else "no test questions", "–", "", "–"]
    side = "above" if r["coverage"] > r["band_high"] else "below" if r["coverage"] < r["band_low"] else "within"
    band = {"value": r["coverage"], "low": r["band_low"], "high": r["band_high"]}
    return [rounded(band), between(band), side, number(r["mean_size"], 2)]


ASSETS = ["../templates/sheets.html"]
SECTION = Section("coverage-by-part", "Group-conditional coverage", coverage_by_part, "sheets.html")
