"""Conformal sets with a threshold for each part of the questions: what every part was calibrated on, and how often its sets cover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from qualm.registry import OPTION_PARTS
from qualm.runners.reporting.load import Results
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, number, rounded, visible, words

HEADER = ["model", "score", "part", "calibrate", "test", "threshold", "coverage", "expected (95%)", "", "mean size"]
NOTE = (
    "How to read it: every part has a threshold from its own calibration questions, so the right option should be in the set for at least "
    "the target share within each part, on average over draws of calibration questions that are exchangeable with the test questions "
    "of the same part; of questions in groups, for a question drawn at random from a new group, each group counting once. Clean inputs "
    "only. “expected” is the range that contains coverage on this many test questions in 95% of such draws. One part in forty falls "
    "below it by chance alone. “none”: too few questions, or groups of questions, of the part calibrate, so its questions have no sets; "
    "an option of such a label is in every set."
)


def coverage_by_part(results: Results) -> list[Sheet]:
    """A sheet for each data set and conformal setting with `per:`."""
    rows = results.thresholds.filter(pl.col("per").is_not_null())
    sheets = []
    for (dataset, setting), part in rows.group_by(["dataset", "setting"], maintain_order=True):
        of = list(part.iter_rows(named=True))
        per = of[0]["per"]
        title = f"Coverage by {visible(OPTION_PARTS.get(per, per), 80)}: {visible(str(dataset), 80)} · {visible(str(setting), 80)}"
        sheets.append(Sheet(title, HEADER, list(_rows(of))))
    if sheets:
        sheets[-1].note = NOTE
    return sheets


def _rows(of: list[dict[str, Any]]) -> Iterator[list[str]]:
    for r in of:
        part = "not said" if r["part"] is None else r["part"]
        threshold = "none" if r["threshold"] is None else number(r["threshold"])
        in_groups = f" in {r['n_groups']:,} groups" if (r["n_groups"] or r["n_calibration"]) < r["n_calibration"] else ""
        calibrate = f"{r['n_calibration']:,}{in_groups}"
        cells = [r["model"], words(r["score"]), part, calibrate, f"{r['n_test']:,}", threshold, *_coverage(r)]
        yield [visible(cell, 120) for cell in cells]


def _coverage(r: dict[str, Any]) -> list[str]:
    if r["coverage"] is None:
        return ["undefined" if r["threshold"] is None else "no test question", "–", "", "–"]
    side = "above" if r["coverage"] > r["band_high"] else "below" if r["coverage"] < r["band_low"] else "within"
    band = {"value": r["coverage"], "low": r["band_low"], "high": r["band_high"]}
    return [rounded(band), between(band), side, number(r["mean_size"], 2)]
