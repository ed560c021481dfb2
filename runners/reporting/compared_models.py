"""Every paired test of two models on a dataset, as a table below its leaderboard."""

from collections.abc import Iterator
from typing import Any

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import between, number, read_label, rounded, signed, visible
from qualm.runners.scoring.families import PAIRED_TEST, compared_quantity, describe_comparison, describe_correction, verdict

MAX_ROWS = 200


def compared_models(results: Report, dataset: str) -> Sheet | None:
    """Return a table of the paired tests on one dataset; None if there are none."""
    tests = list(_tests(results, dataset))
    if not tests:
        return None
    has_margin = any(test["margin"] is not None for test in tests)
    tested = [test for test in tests if test["p_adjusted"] is not None]
    found = sum(bool(verdict(test["p_adjusted"], test["difference"], test["higher_is_better"])) for test in tested)
    settings = results.stage.params.get("made", {}).get("compare")
    correction = describe_correction(settings) if settings else say.CORRECTED_AS_SPECIFIED
    how = say.PAIRED_TESTS.format(test=PAIRED_TEST.capitalize(), correction=correction)
    sentences = [how, say.FIRST_MINUS_SECOND, say.NO_PROOF_OF_EQUALITY]
    if any(test["compared_by"] for test in tests):
        sentences.append(say.ERRORS_COMPARED_BY_SQUARE)
    if has_margin:
        sentences.append(say.MARGIN_P_VALUES)
    if len(tests) > MAX_ROWS:
        where = visible(results.stage.inputs.get("comparisons") or "", 200)
        sentences.append(say.FIRST_SHOWN.format(shown=MAX_ROWS, n=len(tests), where=where))
    rows = [_row(test, has_margin) for test in tests[:MAX_ROWS]]
    caption = say.MODEL_TESTS.format(significant=found, n=len(tested))
    return Sheet(caption, [*say.MODEL_TEST_COLUMNS, *say.MARGIN_COLUMNS * has_margin], rows, note=" ".join(sentences), wordy=True)


def _tests(results: Report, dataset: str) -> Iterator[dict[str, Any]]:
    for test in results.comparisons.filter(dataset=dataset, slice="all").iter_rows(named=True):
        label = read_label(test["metric"], results.settings, results.stage.params.get("calibrators", ()))
        if label.setting in ("", results.main_setting):
            where = "/".join(filter(None, (label.setting, label.score, label.estimator, label.calibrator)))
            by = compared_quantity(test["compared_by"])
            parts = (label.title, label.sweep, f"[{where}]" if where else "", label.arrow, f"({by})" if by else "")
            yield test | {"title": " ".join(filter(None, parts))}


def _row(test: dict[str, Any], has_margin: bool) -> list[str]:
    limits = (between(test, form=signed) or say.NO_INTERVAL).replace(" ", "\N{NO-BREAK SPACE}")
    p = [test[name] for name in ("p_adjusted", *(("p_equivalent", "p_not_worse") if has_margin else ()))]
    first, *others = ["–" if value is None else number(value, 4) for value in p]
    names = f"{visible(test['b'], 60)} against {visible(test['a'], 60)}"
    values = " and ".join(rounded(test, side) for side in ("value_b", "value_a"))
    finding = visible(describe_comparison(test), 300)
    change = "–" if test["difference"] is None else rounded(test, "difference", signed)
    return [names, visible(test["title"], 120), values, change, limits, first, finding, *others]
