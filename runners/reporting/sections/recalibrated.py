"""Raw and recalibrated confidences: values, differences from raw, and tests."""

from collections.abc import Iterator
from typing import Any

from qualm.registry import CLEAN
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import Label, between, display_name, number, rounded, signed, visible
from qualm.runners.scoring.calibration.fits import RAW
from qualm.runners.scoring.families import verdict
from qualm.runners.scoring.measuring.labels import metric_of
from qualm.runners.scoring.rankings import MIN_GROUPS

NOTE = say.RECALIBRATED_NOTE.format(needed=MIN_GROUPS)


def recalibrated(results: Report) -> list[Sheet]:
    """Return a table per dataset and calibrator setting: metrics before and after, and tests."""
    of_settings: dict[str, list[Label]] = {}
    for label in results.labels.values():
        if label.calibrator:
            of_settings.setdefault(label.calibrator.partition("/")[0], []).append(label)
    sheets = []
    for dataset in results.datasets:
        for setting, labels in of_settings.items():
            if rows := list(_rows(results, dataset, setting, labels)):
                title = say.RECALIBRATED.format(dataset=visible(dataset, 80), setting=visible(setting, 80))
                sheets.append(Sheet(title, [*say.RECALIBRATED_COLUMNS], rows))
    if sheets:
        sheets[0].note = NOTE
    return sheets


def _rows(results: Report, dataset: str, setting: str, labels: list[Label]) -> Iterator[list[str]]:
    tests = _tests(results, dataset, setting)
    for model in results.models:
        for label in sorted(labels, key=lambda a: (a.plugin, a.sweep, _method_and_estimator(a) != RAW)):
            if (row := results.cells.get((model, dataset, label.text))) is not None:
                yield _row(model, label, row, tests.get((model, metric_of(label.text), _method_and_estimator(label))))


def _tests(results: Report, dataset: str, setting: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return (model, metric, calibrator) -> its test against raw confidence."""
    rows = results.calibrator_comparisons.filter(dataset=dataset, setting=setting, variant=CLEAN, slice="all", a=RAW)
    return {(r["model"], r["metric"], r["b"]): r for r in rows.iter_rows(named=True)}


def _row(model: str, label: Label, row: dict[str, Any], test: dict[str, Any] | None) -> list[str]:
    value, ends = rounded(row), between(row)
    if value == "undefined":
        value = f"undefined: {visible(row['why'] or '', 120)}"
    difference, p, word = ("", "", "") if _method_and_estimator(label) == RAW else ("–", "–", say.NOT_TESTED)
    if test is not None:
        ends_of = between(test, form=signed)
        difference, p = rounded(test, "difference", signed) + (f" ({ends_of})" if ends_of else ""), number(test["p_adjusted"], 4)
        word = verdict_against_raw(test) or say.STATISTICALLY_TIED
    method, _, estimator = _method_and_estimator(label).partition("/")
    name = "raw" if method == RAW else display_name(method) + (f" of {display_name(estimator)}" if estimator else "")
    title = f"{label.title} {label.sweep} {label.arrow}".replace("  ", " ").strip()
    cells = [model, title, name, f"{value} ({ends})" if ends else value, difference, p, word, f"{row['n']:,}"]
    return [visible(cell, 120) for cell in cells]


def verdict_against_raw(test: dict[str, Any]) -> str:
    """Return "better" or "worse" than raw if corrected p and interval agree; else ""."""
    if test["low"] is None or test["high"] is None or test["low"] <= 0 <= test["high"]:
        return ""
    return verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])


def _method_and_estimator(label: Label) -> str:
    """Return a label's calibrator without setting: `raw`, METHOD or METHOD/ESTIMATOR."""
    return label.calibrator.partition("/")[2]


ASSETS = ["../templates/sheets.html"]
SECTION = Section("recalibrated", "Recalibration", recalibrated, "sheets.html")
