"""Every estimator of a model against its best one: the corrected tests of the score stage."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from qualm.registry import CLEAN
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.chance import none_beats_chance
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, display_name, number, read_label, rounded, signed, visible
from qualm.runners.results.gains import turn_around
from qualm.runners.scoring.families import verdict
from qualm.runners.scoring.rankings import ESTIMATORS


@dataclass(frozen=True)
class BestEstimatorTests:
    """Table and summary of tests of one dataset's estimators against the best one."""

    sentence: str
    sheet: Sheet


def best_estimator_tests(results: Report, dataset: str) -> BestEstimatorTests | None:
    """Return the tests of one dataset's estimators against the best; None if there are none."""
    tests = list(_tests(results, dataset))
    if not tests:
        return None
    n_significant = sum(bool(test["verdict"]) for test in tests)
    template = say.ONE_DIFFERENCE if len(tests) == 1 else say.ONE_OF_DIFFERENCES if n_significant == 1 else say.DIFFERENCES
    sentence = template.format(significant=n_significant, n=len(tests))
    if n_significant < len(tests):
        sentence += say.TIE_IS_NO_PROOF
    for model, metric, best in dict.fromkeys((t["model"], t["metric"], t["a"]) for t in tests):
        row = next(r for r in results.candidates(ESTIMATORS, dataset, metric, model=model) if r["candidate"] == best)
        if (no_better := none_beats_chance(row)) or row["not_comparable"]:
            shares = say.UNRANKED_SHARES if row["not_comparable"] else ""
            sentence += f" {visible(model, 60)}, {visible(metric, 60)}: {'; '.join(filter(None, (no_better, shares)))}."
    rows = [_row(test) for test in tests]
    sheet = Sheet(say.ESTIMATOR_TESTS, [*say.ESTIMATOR_TEST_COLUMNS], rows, note=say.FROM_THE_BEST, wordy=True)
    return BestEstimatorTests(sentence, sheet)


def _tests(results: Report, dataset: str) -> Iterator[dict[str, Any]]:
    """Yield each test (dict) against a ranking's best estimator, as the other minus the best."""
    rows = results.estimator_comparisons.filter((pl.col("dataset") == dataset) & (pl.col("variant") == CLEAN) & (pl.col("slice") == "all"))
    for row in rows.iter_rows(named=True):
        label = read_label(row["metric"], results.settings)
        ranked = results.candidates(ESTIMATORS, dataset, row["metric"], model=row["model"])
        if not ranked or ranked[0]["candidate"] not in (row["a"], row["b"]) or label.setting not in ("", results.main_setting):
            continue
        test = turn_around(row) if row["b"] == ranked[0]["candidate"] else row
        title = f"{label.title} {label.sweep} {label.arrow}".replace("  ", " ").strip()
        yield {**test, "verdict": verdict(test["p_adjusted"], test["difference"], test["higher_is_better"]), "title": title}


def _row(test: Mapping[str, Any]) -> list[str]:
    names = [visible(test["model"], 60), visible(test["title"], 60), *(visible(display_name(test[side]), 60) for side in "ab")]
    p = number(test["p_adjusted"], 4)
    finding = f"significantly {test['verdict']}" if test["verdict"] else say.STATISTICALLY_TIED
    # Names are broken where there is no room, numbers are not.
    limits = (between(test) or say.NO_INTERVAL).replace(" ", "\N{NO-BREAK SPACE}")
    return [*names, rounded(test, "difference", signed), limits, p, finding]
