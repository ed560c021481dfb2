"""Differences between two models, against scipy and DeLong's influences."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.families import Family
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.paired_tests import common_rows, compare, compare_models, pairs_of
from tests.support.projects.stages import ref


def cell(model, correct, confidence=None, per_group=1, uncertainty=None):
    n = len(correct)
    rows = [{"sample_id": f"s{i}", "group": f"g{i // per_group}", "question": "?", "answerable": True} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": np.array(correct, dtype=float), "confidence": np.full(n, 0.5) if confidence is None else np.array(confidence)}
    columns |= {"answerable": samples.answerable, "fold": samples.fold}
    return Cell(model, samples, "clean", columns, {}, {} if uncertainty is None else {"u": np.array(uncertainty)})


def whole(samples, times=200):
    return make_slices(samples, [], times, 7)[0]


def run(metric, a, b, times=200, margin=None):
    (found,) = compare(read_metrics([metric]), a, b, whole(a.samples, times), 0.95, margin)
    return found


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.25])
def test_a_mean_is_compared_by_the_paired_t_test(shift):
    """Where resamples are left out; with them the larger of two standard errors is taken."""
    rng = np.random.default_rng(3)
    a, b = rng.random(60), np.clip(rng.random(60) + shift, 0, 1)
    expected = stats.ttest_rel(b, a)
    found = run(ref("accuracy"), cell("a", a), cell("b", b), times=0)
    ends = expected.confidence_interval(0.95)
    of_exchanges = 2 * stats.norm.sf(abs((b - a).sum()) / np.sqrt(((b - a) ** 2).sum()))
    assert found.difference == pytest.approx(b.mean() - a.mean())
    assert found.p == pytest.approx(max(expected.pvalue, of_exchanges), rel=0.15)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=0.02, abs=0.002)
    assert run(ref("accuracy"), cell("a", a), cell("b", b)).p == pytest.approx(max(expected.pvalue, of_exchanges), rel=0.5)


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 9), (1, 11), (2, 10), (4, 12), (8, 22)])
def test_few_questions_that_differ(only_a, only_b):
    """McNemar's exact test is the judge of what so few questions can show; of 30 questions the others are right in both."""
    differences = np.array([-1.0] * only_a + [1.0] * only_b + [0.0] * max(0, 30 - only_a - only_b))
    found = run(ref("accuracy"), cell("a", differences < 0), cell("b", differences > 0))
    exact = stats.binomtest(only_a, only_a + only_b).pvalue
    assert exact / 2.5 < found.p < 2.5 * exact


def test_groups_are_what_is_independent():
    """Ten copies of each answer change nothing."""
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 2, 40) * 1.0, rng.integers(0, 2, 40) * 1.0
    alone = run(ref("accuracy"), cell("a", a), cell("b", b))
    copied = run(ref("accuracy"), cell("a", np.repeat(a, 10), per_group=10), cell("b", np.repeat(b, 10), per_group=10))
    assert (copied.p, copied.low, copied.high) == pytest.approx((alone.p, alone.low, alone.high), rel=0.1)


def test_the_test_and_the_interval_agree():
    rng = np.random.default_rng(6)
    agreed = set()
    for _ in range(40):
        a, b = cell("a", rng.random(30) < 0.5), cell("b", rng.random(30) < 0.75)
        found = run(ref("accuracy"), a, b)
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        agreed.add(found.p < 0.05)
    assert agreed == {True, False}


def delong(uncertainty, wrong):
    """Placement values of both classes (DeLong, 1988): AUROC, and each row's influence on it."""
    above = (uncertainty[wrong == 1][:, None] > uncertainty[wrong == 0]).astype(float)
    value, influence = above.mean(), np.zeros(len(wrong))
    influence[wrong == 1], influence[wrong == 0] = above.mean(axis=1) - value, above.mean(axis=0) - value
    return value, influence * np.where(wrong == 1, 1 / (wrong == 1).sum(), 1 / (wrong == 0).sum())


def test_rankings_are_compared_as_by_delong():
    rng = np.random.default_rng(7)
    n, values, influences, cells = 400, [], [], []
    for name, accuracy in (("a", 0.9), ("b", 0.6)):
        wrong = (rng.random(n) > accuracy) * 1
        uncertainty = rng.normal(size=n) + wrong
        value, influence = delong(uncertainty, wrong)
        values, influences = [*values, value], [*influences, influence]
        cells.append(cell(name, 1.0 - wrong, uncertainty=uncertainty))
    found = run(ref("auroc"), *cells, times=500)
    error = np.sqrt(((influences[1] - influences[0]) ** 2).sum())
    assert (found.value_a, found.value_b) == pytest.approx(values)
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, 40) * error, rel=0.1)


@pytest.mark.parametrize("metric", ["ece", "ece_adaptive", "ece_smooth", "mce", "ks_calibration_error", "ece_debiased"])
def test_calibration_errors_are_compared_by_the_squared_bias_corrected_one(metric):
    rng = np.random.default_rng(8)
    a, b = (cell(name, rng.integers(0, 2, 90), rng.random(90)) for name in "ab")
    found, plain = run(ref(metric), a, b), run(ref("ece_debiased", squared=True), a, b)
    assert found.compared_by == plain.compared_by == "ece_debiased"
    assert (found.value_a, found.value_b, found.low, found.p) == (plain.value_a, plain.value_b, plain.low, plain.p)
    value = evaluate(read_metrics([ref("ece_debiased", squared=True)]), a, whole(a.samples))[0][1].value
    assert found.value_a == pytest.approx(value)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [((0.5, 0.7), (0.9, 1.0)), ((0.3, 0.9), (0.7, 1.0))])
def test_equally_calibrated_models_of_unequal_sharpness_are_not_called_different(low, high):
    rng, called = np.random.default_rng(9), 0
    for _ in range(60):
        cells = []
        for name, ends in (("a", low), ("b", high)):
            confidence = rng.uniform(*ends, 300)
            cells.append(cell(name, rng.random(300) < confidence, confidence))
        called += run(ref("ece"), *cells, times=100).p <= 0.05
    assert called <= 6


@pytest.mark.parametrize("metric", [ref("coverage_at_risk", risk=0.3), ref("brier_resolution")])
def test_what_has_no_valid_test_says_why(metric):
    rng = np.random.default_rng(6)
    a, b = (cell(name, rng.integers(0, 2, 90), rng.random(90)) for name in "ab")
    found = run(metric, a, b)
    assert np.isnan([found.low, found.high, found.p]).all() and found.why and not np.isnan(found.difference)


def test_too_few_answers_of_the_rarer_class():
    rng = np.random.default_rng(6)
    sides = [cell(name, np.arange(60) >= wrong, uncertainty=rng.random(60)) for name, wrong in (("a", 9), ("b", 30))]
    assert run(ref("auroc"), *sides).why == "9 answers of the rarer class: a test needs 10"
    sides[0].columns["correct"] = (np.arange(60) >= 10) * 1.0
    assert not run(ref("auroc"), *sides).why


def test_all_groups_that_differ_alike():
    """No spread is seen; the difference says no more than as many agreeing signs, which have a chance of 2^-24."""
    found = run(ref("accuracy"), cell("a", [0.0] * 25), cell("b", [1.0] * 25))
    assert (
        found.p == pytest.approx(2 * stats.norm.sf(5))
        and 2**-24 < found.p < 2**-20
        and 0 < found.low < 1
        and (found.difference, found.high) == (1, 1)
    )
    assert run(ref("accuracy"), cell("a", [1.0, 0] * 20), cell("b", [1.0, 0] * 20)).p == 1


def test_equivalence_is_two_one_sided_tests():
    rng = np.random.default_rng(10)
    a = rng.random(400)
    b = a + rng.normal(0.005, 0.1, 400)
    columns = [cell("a", np.clip(a, 0, 1)), cell("b", np.clip(b, 0, 1))]
    found = run(ref("accuracy"), *columns, times=0, margin=0.02)
    difference = columns[1].columns["correct"] - columns[0].columns["correct"]
    below = stats.ttest_1samp(difference, 0.02, alternative="less").pvalue
    above = stats.ttest_1samp(difference, -0.02, alternative="greater").pvalue
    assert (found.p_equivalent, found.p_not_worse) == pytest.approx((max(below, above), above), rel=0.5)
    assert found.p_equivalent < 0.05
    assert np.isnan(run(ref("accuracy"), *columns, margin={"auroc": 0.1}).p_equivalent)
    assert run(ref("accuracy"), *columns, times=0, margin={"accuracy": 0.02}).p_equivalent == found.p_equivalent
    alike = run(ref("accuracy"), cell("a", [1.0, 0] * 200), cell("b", [1.0, 0] * 200), margin=0.02)
    assert alike.p_equivalent < 0.001, "no group differs; one is taken to"


def test_only_rows_that_both_are_scored_on():
    correct = np.array([1.0, 1, 0, 0, np.nan, 1])
    other = np.array([np.nan, 0, 1, 1, 1, 1])
    found = run(ref("accuracy"), cell("a", correct), cell("b", other))
    assert (found.n, found.value_a, found.value_b) == (4, 0.5, 0.75)


@pytest.mark.slow
def test_p_values_are_uniform_where_there_is_no_difference():
    rng = np.random.default_rng(8)
    found = []
    for _ in range(300):
        luck = np.repeat(rng.random(20), 3)
        found.append(run(ref("accuracy"), *(cell("x", rng.random(60) < luck, per_group=3) for _ in range(2)), times=0).p)
    assert 0.02 < np.mean(np.array(found) <= 0.05) < 0.09


def test_undefined_stays_undefined():
    found = run(ref("accuracy"), cell("a", [np.nan] * 8), cell("b", [1.0] * 8))
    assert found.n == 0 and np.isnan([found.value_a, found.p, found.low]).all() and found.why
    few = run(ref("accuracy"), cell("a", [0.0, 1] * 4, per_group=2), cell("b", [1.0, 1] * 4, per_group=2))
    assert few.difference == 0.5 and np.isnan([few.p, few.low]).all() and few.why == "4 scored groups: a test needs 5"


def test_which_pairs():
    asked = {"baseline": "a", "pairs": [["b", "c"], ["a", "b"], ["b", "gone"]]}
    assert pairs_of(asked, ["a", "b", "c"]) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs_of({"baseline": None, "pairs": []}, ["a", "b"]) == []
    assert pairs_of({"baseline": "gone", "pairs": []}, ["a", "b"]) == []


def test_the_rows_of_a_slice_are_compared():
    rng = np.random.default_rng(9)
    a, b = cell("a", rng.integers(0, 2, 30), per_group=3), cell("b", rng.integers(0, 2, 30), per_group=3)
    rows = np.arange(9, 24)
    part = Slice("some", rows, Bootstrap(a.samples.groups[rows], 100, 1, "some"))
    (found,) = compare(read_metrics([ref("accuracy")]), a, b, part, 0.9)
    assert found.value_a == a.columns["correct"][rows].mean() and found.n == 15
    alone = evaluate(read_metrics([ref("accuracy")]), a, part)[0][1]
    assert intervals([alone], 0.9, part.bootstrap.groups)[0] != (found.low, found.high)


def test_pairs_are_tested_on_every_slice_and_corrected_together():
    a, b = cell("m", [0.0, 1] * 30), cell("n", [1.0, 1] * 30)
    asked = {"baseline": "m", "pairs": [["n", "m"]], "margin": None}
    slices = [whole(a.samples), Slice("none", np.empty(0, dtype=np.int64), Bootstrap(np.empty(0, dtype=np.int64), 50, 7))]
    tests = list(compare_models(read_metrics([ref("accuracy"), ref("ece")]), {"m": a, "n": b}, slices, asked, 0.9))
    adjusted = {}
    for span in ("metric", "slice"):
        family = Family("holm", span, tests)
        family.correct()
        adjusted[span] = [row["p_adjusted"] for row, _ in tests]
    table = [row for row, _ in tests]
    assert [(r["a"], r["b"], r["slice"], r["metric"]) for r in table][:3] == [
        ("m", "n", "all", "accuracy"),
        ("m", "n", "all", "ece"),
        ("n", "m", "all", "accuracy"),
    ]
    assert table[0]["difference"] == 0.5 and table[2]["difference"] == -0.5
    assert table[0]["p"] < 0.001 and adjusted["metric"][0] == pytest.approx(2 * table[0]["p"])
    wider = [(one, other) for one, other in zip(adjusted["slice"], adjusted["metric"], strict=True) if other is not None]
    assert all(one >= other for one, other in wider) and any(one > other for one, other in wider)
    assert (table[0]["compared_by"], table[1]["compared_by"]) == (None, "ece_debiased")
    assert [r["higher_is_better"] for r in table][:2] == [True, False]
    of_none = [r for r in table if r["slice"] == "none"]
    assert of_none and all(r["p"] is None and r["n"] == 0 for r in of_none)


def test_settings_scores_and_recalibrations_count_where_both_sides_have_them():
    def side(name, calibrates, scores, methods, **more):
        settings = {"half": Setting(np.array(calibrates), {s: {"covered": np.array([1.0, 0, gone])} for s, gone in scores.items()}), **more}
        recalibrations = [Recalibration("held", m, "", np.zeros(3, dtype=bool), {"confidence": np.ones(3)}, [], 0) for m in methods]
        return replace(cell(name, [1, 0, 1]), settings=settings, recalibrations=recalibrations)

    a = side("a", [1.0, 0, 0], {"lac": 1.0, "aps": 1.0}, ["raw", "platt"], mine=Setting(np.zeros(3)))
    b = side("b", [0.0, 1, 0], {"lac": np.nan, "raps": 1.0}, ["raw", "beta"])
    for of in common_rows(a, b):
        assert [r.label for r in of.recalibrations] == ["held/raw"] and list(of.settings) == ["half"]
        assert of.settings["half"].is_calibration.tolist() == [1, 1, 0], "what calibrates for one is out for both"
        assert list(of.settings["half"].scores) == ["lac"]
        np.testing.assert_array_equal(of.settings["half"].scores["lac"]["covered"], [1, 0, np.nan])


def test_the_probabilities_of_options_count_where_both_sides_have_them():
    a, b = (cell(name, [1, 0, 1]) for name in ("a", "b"))
    a.columns["option_probabilities"] = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    b.columns["option_probabilities"] = np.array([[0.5, 0.3, 0.2], [np.nan] * 3, [0.1, 0.1, 0.8]])
    mine, yours = (of.columns["option_probabilities"] for of in common_rows(a, b))
    np.testing.assert_array_equal(mine, [[0.5, 0.5], [np.nan] * 2, [0.9, 0.1]])
    np.testing.assert_array_equal(yours, [[0.5, 0.3, 0.2], [np.nan] * 3, [0.1, 0.1, 0.8]])


@pytest.mark.parametrize("gap", [False, True], ids=["equal rows", "unequal rows"])
def test_a_test_does_not_depend_on_the_other_pairs(gap):
    """Models of several pairs are measured once where all are scored on the same rows."""
    rng = np.random.default_rng(11)
    cells = {name: cell(name, rng.integers(0, 2, 60), rng.random(60), uncertainty=rng.random(60)) for name in "abc"}
    if gap:
        cells["b"].columns["correct"][:7] = np.nan
    metrics = read_metrics([ref("accuracy"), ref("auroc"), ref("ece")])
    part = whole(cells["a"].samples)
    asked = {"baseline": "a", "pairs": [["b", "c"]], "margin": 0.1}
    rows = [row for row, _ in compare_models(metrics, cells, [part], asked, 0.95)]
    alone = [test.row for x, y in ("ab", "ac", "bc") for test in compare(metrics, cells[x], cells[y], part, 0.95, 0.1)]
    assert len(rows) == 9 and [{name: row[name] for name in alone[0]} for row in rows] == alone
    assert {(row["a"] + row["b"], row["n"]) for row in rows} == {("ab", 60 - 7 * gap), ("ac", 60), ("bc", 60 - 7 * gap)}
