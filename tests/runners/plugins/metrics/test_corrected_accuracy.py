"""Accuracy corrected by labels of people: hand calculations, the formulas of the papers, laws, coverage."""

import math

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

import qualm
from qualm.runners.plugins.metrics.corrected_accuracy import corrected_accuracy, interval, why_undefined
from qualm.runners.plugins.metrics.judge_agreement import judge_agreement
from qualm.runners.scoring.bootstrap import Bootstrap

BINARY = [(60, 1, 1), (10, 1, 0), (5, 0, 1), (25, 0, 0)]
"""Labelled answers: how many, the judge's rating, people's."""


def answers(labels=BINARY, unlabelled=((500, 1), (400, 0))):
    """Columns `correct`, `people_rating`, `labelled`, `is_calibration` of labelled answers, then of the others."""
    n, f, y = (np.array(column) for column in zip(*labels, strict=True))
    m, g = (np.array(column) for column in zip(*unlabelled, strict=True)) if unlabelled else (np.array([0]), np.array([0]))
    correct = np.r_[np.repeat(f, n), np.repeat(g, m)].astype(float)
    people = np.r_[np.repeat(y, n), np.zeros(m.sum())].astype(float)
    return correct, people, np.r_[np.ones(n.sum()), np.zeros(m.sum())], np.zeros(len(correct))


def estimate(columns, **options):
    return corrected_accuracy(*columns, np.ones((1, len(columns[0]))), **options)[0]


def limits(columns, **options):
    return interval(*columns, np.arange(len(columns[0])), 0.95, **options)


def random_answers(rng, n=300, ratings=(0, 0.5, 1)):
    y = rng.choice(ratings, n)
    correct = np.where(rng.random(n) < 0.8, y, rng.choice(ratings, n))
    labelled = (rng.random(n) < 0.4) * 1.0
    return correct, y * labelled, labelled, np.zeros(n)


def test_by_hand():
    # Of 57% called right by the judge 60/70 are right, of the others 5/30.
    assert estimate(answers()) == pytest.approx(0.57 * 60 / 70 + 0.43 * 5 / 30)
    # Sensitivity 60/65, specificity 25/35.
    expected = (0.57 + 25 / 35 - 1) / (60 / 65 + 25 / 35 - 1)
    assert estimate(answers(), method="rogan_gladen") == pytest.approx(expected)
    assert judge_agreement(*answers(), np.ones((1, 1000)))[0] == pytest.approx(0.85)


@pytest.mark.parametrize("ratings", [(0, 1), (0, 0.5, 1)])
def test_is_the_estimate_of_ppi_plus_plus_in_every_resample(ratings):
    rng = np.random.default_rng(1)
    f, y, labelled, calibrates = random_answers(rng, ratings=ratings)
    (weights,) = Bootstrap(np.arange(300) // 3, 20, 1).blocks()
    found = corrected_accuracy(f, y, labelled, calibrates, weights)
    for value, counts in zip(found, np.asarray(weights).astype(int), strict=True):
        of_labelled, others = (np.repeat(np.arange(300), counts * (labelled == k)) for k in (1, 0))
        n, big_n = len(of_labelled), len(others)
        covariance = np.cov(f[of_labelled], y[of_labelled], bias=True)
        tuning = covariance[0, 1] / ((1 + n / big_n) * covariance[0, 0])
        assert value == pytest.approx(y[of_labelled].mean() + tuning * (f[others].mean() - f[of_labelled].mean()))


@pytest.mark.parametrize("method", ["ppi", "rogan_gladen"])
def test_with_every_answer_labelled_it_is_the_mean_of_the_labels(method):
    assert estimate(answers(unlabelled=()), method=method) == pytest.approx(0.65)


def test_a_useless_judge_leaves_the_labels_and_a_perfect_one_its_own_accuracy():
    useless = answers([(35, 1, 1), (35, 0, 1), (15, 1, 0), (15, 0, 0)])
    assert estimate(useless) == pytest.approx(0.7)
    assert estimate(answers([(35, 0, 1), (15, 1, 0)])) == pytest.approx(0.7), "a judge that errs always is not turned around"
    assert estimate(answers([(50, 1, 1), (20, 0, 0)])) == pytest.approx(550 / 970)
    assert estimate(answers([(50, 1, 1)], [(950, 1)])) == 1.0


def test_undefined_says_why():
    none = answers([(0, 1, 1)])
    assert math.isnan(estimate(none)) and why_undefined(*none) == "no scored answer has a label of people"
    for labels, why in [
        ([(40, 1, 1), (5, 0, 1)], "people call every labelled answer right"),
        ([(40, 0, 0), (5, 1, 0)], "people call every labelled answer wrong"),
        ([(20, 1, 1), (20, 1, 0)], "no better than chance"),
        ([(40, 1, 0.5), (40, 0, 0)], "needs ratings of 0 and 1"),
        ([(40, 0.5, 1), (40, 0, 0)], "needs ratings of 0 and 1"),
    ]:
        columns = answers(labels)
        assert math.isnan(estimate(columns, method="rogan_gladen")) and not math.isnan(estimate(columns))
        assert why in why_undefined(*columns, method="rogan_gladen")


def test_too_few_labels_have_no_interval():
    few = answers([(20, 1, 1), (9, 0, 0)])
    assert limits(few) == "29 labelled answers in 29 groups: an interval needs 30 in 5"
    one_kind = answers([(50, 1, 1), (4, 0, 0)])
    assert limits(one_kind, method="rogan_gladen").endswith("right or wrong, in 4 groups: an interval needs 5")
    many = answers()
    assert interval(*many, np.zeros(1000, dtype=np.int64), 0.95) == "100 labelled answers in 1 groups: an interval needs 30 in 5"


def test_the_interval_is_nearly_wilsons_where_all_answers_are_labelled_and_the_judge_is_useless():
    low, high = limits(answers([(120, 1, 1), (80, 1, 0)], unlabelled=()))
    assert (low, high) == pytest.approx(proportion_confint(120, 200, method="wilson"), abs=0.004)


def test_the_interval_allows_for_errors_that_labels_do_not_show():
    low, high = limits(answers([(70, 1, 1), (30, 0, 0)], [(70_000, 1), (30_000, 0)]))
    unseen = proportion_confint(0, 100, method="wilson")[1]
    assert (0.7 - low, high - 0.7) == pytest.approx((unseen, unseen), rel=0.05)


def test_the_interval_of_rogan_gladen_by_the_formula_of_lang_and_reiczigel():
    z = 1.959964
    # Standard errors of clusters divide by one less.
    share, n = (0.57 * 999 + z**2 / 2) / (999 + z**2), 999 + z**2
    sensitivity, specificity = (60 / 65 * 64 + 1) / 66, (25 / 35 * 34 + 1) / 36
    gain = sensitivity + specificity - 1
    value = (share + specificity - 1) / gain
    a, b = sensitivity * (1 - sensitivity) / 66, specificity * (1 - specificity) / 36
    centre = value + 2 * z**2 * (value * a - (1 - value) * b)
    reach = z * math.sqrt(share * (1 - share) / n + value**2 * a + (1 - value) ** 2 * b) / gain
    assert limits(answers(), method="rogan_gladen") == pytest.approx((centre - reach, centre + reach))


@pytest.mark.parametrize("accuracy", [0.3, 0.95])
def test_intervals_hold_the_truth(accuracy):
    rng = np.random.default_rng(3)
    held = []
    for _ in range(300):
        y = (rng.random(1000) < accuracy) * 1.0
        f = np.where(rng.random(1000) < np.where(y == 1, 0.9, 0.8), y, 1 - y)
        labelled = np.zeros(1000)
        labelled[rng.choice(1000, 60, replace=False)] = 1
        low, high = limits((f, y * labelled, labelled, np.zeros(1000)))
        held.append(low <= accuracy <= high)
    assert 0.92 <= np.mean(held) <= 1


def test_in_the_library_labels_are_a_column_with_gaps():
    rng = np.random.default_rng(5)
    f, y, labelled, _ = random_answers(rng)
    table = {"correct": f, "people_rating": [value if known else None for value, known in zip(y, labelled, strict=True)]}
    rows = {row["metric"]: row for row in qualm.score(table, ["accuracy", "corrected_accuracy", "judge_agreement"]).to_dicts()}
    corrected = rows["corrected_accuracy"]
    assert corrected["value"] == pytest.approx(estimate((f, y, labelled, np.zeros(300))))
    assert corrected["low"] < corrected["value"] < corrected["high"] and corrected["n"] == 300
    assert rows["judge_agreement"]["n"] == labelled.sum()
    with pytest.raises(qualm.ArgumentError, match=r"people_rating: row 0: expected a number between 0 and 1, got 2"):
        qualm.score(table | {"people_rating": [2.0] * 300}, ["corrected_accuracy"])


def test_models_are_compared_if_people_call_enough_answers_of_each_right_and_wrong():
    rng = np.random.default_rng(6)
    a, b = (np.r_[np.ones(60 - wrong), np.zeros(wrong + 300)] for wrong in (30, 12))
    labelled = np.r_[np.ones(60), np.zeros(300)]
    judged = [np.where(labelled > 0, y, rng.random(360) < y[:60].mean()) for y in (a, b)]
    people = [[y if known else None for y, known in zip(of, labelled, strict=True)] for of in (a, b)]
    tables = [{"correct": f, "people_rating": y} for f, y in zip(judged, people, strict=True)]
    (row,) = qualm.compare(*tables, ["corrected_accuracy"]).to_dicts()
    assert row["difference"] == pytest.approx(estimate((judged[1], b, labelled, 0 * b)) - estimate((judged[0], a, labelled, 0 * a)))
    assert row["low"] < row["difference"] < row["high"] and row["p"] < 0.01 and row["better"] == "b"
    few = [1.0] * 55 + [0.0] * 5 + [None] * 300
    (row,) = qualm.compare(tables[0], tables[1] | {"people_rating": few}, ["corrected_accuracy"]).to_dicts()
    assert row["p"] is None and row["low"] is None
    (score,) = qualm.score(tables[1] | {"people_rating": few}, ["corrected_accuracy"]).to_dicts()
    assert score["low"] < score["value"] < score["high"]
