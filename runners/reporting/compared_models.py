"""Every paired test of two models on a dataset, as a table below its leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, number, read_label, rounded, signed, visible
from qualm.runners.scoring.families import PAIRED_TEST, how_corrected, in_words, measured_by, verdict

HEADER = ["models", "metric", "values", "difference", "interval", "corrected p", "finding"]
MARGIN_HEADER = ["p, equal", "p, not worse"]
MAX_ROWS = 200


def compared_models(results: Report, dataset: str) -> Sheet | None:
    """Return the tests on one dataset, clean inputs, all questions; None where the spec compares no models."""
    tests = list(_tests(results, dataset))
    if not tests:
        return None
    has_margin = any(test["margin"] is not None for test in tests)
    tested = [test for test in tests if test["p_adjusted"] is not None]
    found = sum(bool(verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])) for test in tested)
    settings = results.stage.params.get("made", {}).get("compare")
    sentences = [
        f"{PAIRED_TEST.capitalize()} tests over whole groups, {how_corrected(settings) if settings else 'corrected as the spec says'}.",
        "Differences are the first model minus the second. Each interval is for that difference alone.",
        "The absence of a significant difference does not prove equality.",
    ]
    if any(test["compared_by"] for test in tests):
        sentences.append("Calibration errors are compared by their squared bias-corrected error, since the plain estimate is biased.")
    if has_margin:
        sentences.append(
            "p, equal: the difference is within the margin; p, not worse: the first is not worse by the margin; both corrected."
        )
    if len(tests) > MAX_ROWS:
        where = visible(results.stage.inputs.get("comparisons") or "", 200)
        sentences.append(f"The first {MAX_ROWS} of {len(tests):,} are shown; all are in {where}.")
    rows = [_row(test, has_margin) for test in tests[:MAX_ROWS]]
    caption = f"Tests between models: {found:,} of {len(tested):,} differences are significant"
    return Sheet(caption, HEADER + MARGIN_HEADER * has_margin, rows, note=" ".join(sentences), wordy=True)


def _tests(results: Report, dataset: str) -> Iterator[dict[str, Any]]:
    for test in results.comparisons.filter((pl.col("dataset") == dataset) & (pl.col("slice") == "all")).iter_rows(named=True):
        label = read_label(test["metric"], results.settings, results.stage.params.get("calibrators", ()))
        if label.setting in ("", results.main_setting):
            where = "/".join(filter(None, (label.setting, label.score, label.estimator, label.calibrator)))
            by = measured_by(test["compared_by"])
            parts = (label.title, label.sweep, f"[{where}]" if where else "", label.arrow, f"({by})" if by else "")
            yield test | {"title": " ".join(filter(None, parts))}


def _row(test: dict[str, Any], has_margin: bool) -> list[str]:
    limits = (between(test, form=signed) or "no interval").replace(" ", "\N{NO-BREAK SPACE}")
    p = [test[name] for name in ("p_adjusted", *(("p_equivalent", "p_not_worse") if has_margin else ()))]
    first, *others = ["–" if value is None else number(value, 4) for value in p]
    names = f"{visible(test['b'], 60)} against {visible(test['a'], 60)}"
    values = " and ".join(rounded(test, side) for side in ("value_b", "value_a"))
    finding = visible(in_words(test), 300)
    change = "–" if test["difference"] is None else rounded(test, "difference", signed)
    return [names, visible(test["title"], 120), values, change, limits, first, finding, *others]
