"""Group-conditional conformal sets: calibration size, threshold and coverage of each group of questions."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from qualm.registry import OPTION_PARTS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, display_name, number, rounded, visible


def coverage_by_part(results: Report) -> list[Sheet]:
    """Return a table of coverage by question group, per dataset and setting with `per:`."""
    rows = results.thresholds.filter(pl.col("per").is_not_null())
    sheets = []
    for (dataset, setting), part in rows.group_by(["dataset", "setting"], maintain_order=True):
        of = list(part.iter_rows(named=True))
        per = of[0]["per"]
        names = {"part": OPTION_PARTS.get(per, per), "dataset": str(dataset), "setting": str(setting)}
        title = say.COVERAGE_BY_GROUP.format(**{key: visible(name, 80) for key, name in names.items()})
        sheets.append(Sheet(title, [*say.COVERAGE_BY_GROUP_COLUMNS], list(_rows(of))))
    if sheets:
        sheets[0].note = say.COVERAGE_BY_GROUP_NOTE
    return sheets


def _rows(of: list[dict[str, Any]]) -> Iterator[list[str]]:
    for r in of:
        part = "unknown" if r["part"] is None else r["part"]
        threshold = "none" if r["threshold"] is None else number(r["threshold"])
        in_groups = say.IN_GROUPS.format(n=r["n_groups"]) if (r["n_groups"] or r["n_calibration"]) < r["n_calibration"] else ""
        calibrate = f"{r['n_calibration']:,}{in_groups}"
        cells = [r["model"], display_name(r["score"]), part, calibrate, f"{r['n_test']:,}", threshold, *_coverage(r)]
        yield [visible(cell, 120) for cell in cells]


def _coverage(r: dict[str, Any]) -> list[str]:
    if r["coverage"] is None:
        return ["undefined" if r["threshold"] is None else say.NO_TEST_QUESTIONS, "–", "", "–"]
    side = "above" if r["coverage"] > r["band_high"] else "below" if r["coverage"] < r["band_low"] else "within"
    band = {"value": r["coverage"], "low": r["band_low"], "high": r["band_high"]}
    return [rounded(band), between(band), side, number(r["mean_size"], 2)]


ASSETS = ["../templates/sheets.html"]
SECTION = Section("coverage-by-part", say.COVERAGE_BY_GROUP_TITLE, coverage_by_part, "sheets.html")
