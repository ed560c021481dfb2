"""A row for each part of the questions, with what came of its own threshold."""

from qualm.runners.reporting.sections.coverage_by_part import coverage_by_part
from qualm.runners.reporting.sections.leaderboard import describe_rows
from tests.runners.reporting.made_results import made_results, score


def limit(part, threshold, coverage=None, low=None, high=None, **more):
    row = {"model": "m", "dataset": "d", "setting": "ours", "score": "lac", "alpha": 0.1, "n_calibration": 40, "n_test": 50, "n_empty": 0}
    return row | {"per": "category", "part": part, "threshold": threshold, "coverage": coverage, "band_low": low, "band_high": high} | more


THRESHOLDS = [
    limit("a", 0.5, 0.75, 0.8, 0.98, mean_size=2.5),
    limit("b", 0.25, 0.9, 0.8, 0.98, mean_size=1.5),
    limit("rare", None, n_calibration=4, n_groups=2),
    limit(None, None, n_calibration=0, n_test=3),
    limit("untested", 0.5, n_test=0),
]


def test_coverage_beside_where_it_is_expected():
    (sheet,) = coverage_by_part(made_results([score("coverage[ours/lac]", 0.9)], thresholds=THRESHOLDS))
    assert sheet.caption == "Coverage by category: d · ours" and "of the same group" in sheet.note
    assert [row[2:] for row in sheet.rows] == [
        ["a", "40", "50", "0.500", "0.75", "0.80 – 0.98", "below", "2.50"],
        ["b", "40", "50", "0.250", "0.90", "0.80 – 0.98", "within", "1.50"],
        ["rare", "4 in 2 groups", "50", "none", "undefined", "–", "", "–"],
        ["unknown", "0", "3", "none", "undefined", "–", "", "–"],
        ["untested", "40", "0", "0.500", "no test questions", "–", "", "–"],
    ]
    assert all(len(row) == len(sheet.header) for row in sheet.rows)


def test_letters_are_called_what_they_are():
    (sheet,) = coverage_by_part(made_results([score("accuracy", 0.9)], thresholds=[limit("A", 0.5, per="label")]))
    assert sheet.caption.startswith("Coverage by letter of the right option: d")


def test_one_threshold_for_all_has_no_sheet():
    assert coverage_by_part(made_results([score("accuracy", 0.9)], thresholds=[limit(None, 0.5, per=None)])) == []


def test_the_leaderboard_counts_the_questions_of_all_parts_together():
    results = made_results([score("coverage[ours/lac]", 0.9), score("coverage[ours/mean]", 0.9)], thresholds=THRESHOLDS)
    assert "124 rows calibrate, 153 are tested" in describe_rows(results, "d")


def test_the_leaderboard_counts_the_groups_that_calibrate_one_threshold():
    thresholds = [limit(None, 0.5, per=None, n_groups=12)]
    results = made_results([score("coverage[ours/lac]", 0.9), score("coverage[ours/mean]", 0.9)], thresholds=thresholds)
    assert "40 rows of 12 groups calibrate, 50 are tested" in describe_rows(results, "d")
