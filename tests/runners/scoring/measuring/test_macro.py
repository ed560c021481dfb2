"""Macro averages over slices: values by hand, intervals by the formula and by simulation, what is undefined."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.limits import Limits, critical
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.macro import ValueEstimate, correlations, macro_limits
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices


def cell_of(categories, correct, groups=None, **columns):
    rows = [
        {
            "sample_id": f"s{i}",
            "question": "?",
            "answerable": True,
            "category": category,
            "group": "" if groups is None else f"g{groups[i]}",
        }
        for i, category in enumerate(categories)
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    uncertainties = {name: columns.pop(name) for name in list(columns) if name == "entropy"}
    return Cell("m", samples, "clean", {"correct": np.asarray(correct, dtype=np.float64), **columns}, {}, uncertainties)


def metrics(*names):
    return read_metrics([{"label": name, "plugin": name, "args": {}} for name in names])


def macro_of(cell, *names, times=400, field="category", level=0.95):
    part = make_slices(cell.samples, [], times, 7, [field])[-1]
    assert part.label == f"macro:{field}"
    values = evaluate(metrics(*names), cell, part)
    ends = intervals([one for _, one in values], level, part.bootstrap.groups)
    return {label: (one, limit) for (label, one), limit in zip(values, ends, strict=True)}


def test_the_mean_over_categories_counts_each_alike():
    """4 of 10 right of a, 18 of 20 right of b, none without a category: (.4 + .9) / 2, not 22 / 30."""
    cell = cell_of(["a"] * 10 + ["b"] * 20 + [""] * 5, [1] * 4 + [0] * 6 + [1] * 18 + [0] * 2 + [1] * 5)
    one, ends = macro_of(cell, "accuracy")["accuracy"]
    assert one.value == pytest.approx(0.65) and (one.n, one.n_unscored, one.groups) == (30, 0, 30)
    assert ends.low < 0.65 < ends.high


@pytest.mark.parametrize("name", ["accuracy", "ece", "brier", "nll", "auroc", "confidence_weighted_accuracy"])
def test_any_metric_is_averaged_resample_by_resample(name):
    """Against each slice evaluated by itself in the same resamples of the dataset's groups."""
    rng = np.random.default_rng(4)
    n = 240
    category = rng.choice(["a", "b", "c/d"], n)
    correct, confidence = rng.integers(0, 2, n) * 1.0, rng.uniform(0.05, 0.95, n)
    cell = cell_of(category, correct, rng.integers(0, 60, n), confidence=confidence, entropy=rng.random(n))
    whole, macro = make_slices(cell.samples, [], 50, 7, ["category"])
    ((label, one),) = evaluate(metrics(name), cell, macro)
    expected, drawn = [], []
    for value in ("a", "b", "c/d"):
        rows = np.flatnonzero(category == value)
        from_whole = Slice(value, np.arange(n), whole.bootstrap)
        assert len(rows)
        masked = cell_of(
            category, np.where(category == value, correct, np.nan), confidence=confidence, entropy=cell.uncertainties["entropy"]
        )
        masked = Cell("m", cell.samples, "clean", masked.columns, {}, masked.uncertainties)
        ((_, alone),) = evaluate(metrics(name), masked, from_whole, every=True)
        expected.append(alone.value)
        drawn.append(alone.resampled)
    assert label.startswith(name) and one.value == pytest.approx(np.mean(expected))
    np.testing.assert_allclose(one.resampled, np.mean(drawn, axis=0), rtol=1e-9)


def test_a_macro_auroc_is_the_mean_of_scikit_learns():
    rng = np.random.default_rng(1)
    category, wrong, entropy = rng.choice(["a", "b"], 200, p=[0.2, 0.8]), rng.integers(0, 2, 200), rng.random(200)
    ((one, ends),) = macro_of(cell_of(category, 1 - wrong, entropy=entropy), "auroc").values()
    assert one.value == pytest.approx(np.mean([roc_auc_score(wrong[category == c], entropy[category == c]) for c in "ab"]))
    assert one.chance == 0.5 and ends.low < one.value < ends.high


def test_of_one_category_it_is_the_value_itself():
    rng = np.random.default_rng(2)
    cell = cell_of(["a"] * 80, rng.integers(0, 2, 80), rng.integers(0, 30, 80))
    whole, macro = make_slices(cell.samples, [], 200, 7, ["category"])
    (plain,), (averaged,) = (evaluate(metrics("accuracy"), cell, part) for part in (whole, macro))
    assert averaged[1].value == plain[1].value and (averaged[1].resampled == plain[1].resampled).all()
    (a,), (b,) = (intervals([one], 0.95, whole.bootstrap.groups) for one in (plain[1], averaged[1]))
    assert (b.low, b.high) == pytest.approx((a.low, a.high), abs=1e-12)


def test_names_of_categories_change_nothing():
    rng = np.random.default_rng(3)
    category, correct = rng.integers(0, 4, 300), rng.integers(0, 2, 300)
    groups = rng.integers(0, 90, 300)
    (one, ends), (other, others) = (
        macro_of(cell_of([names[c] for c in category], correct, groups), "accuracy")["accuracy"] for names in ("abcd", "zxyw")
    )
    assert other.value == pytest.approx(one.value, abs=1e-12)
    assert (others.low, others.high) == pytest.approx((ends.low, ends.high), abs=1e-12)


def test_of_two_equal_halves_the_interval_is_about_that_of_all():
    rng = np.random.default_rng(5)
    cell = cell_of(["a", "b"] * 300, rng.random(600) < 0.7)
    whole, macro = make_slices(cell.samples, [], 2000, 7, ["category"])
    (plain,), (averaged,) = (evaluate(metrics("accuracy"), cell, part) for part in (whole, macro))
    assert averaged[1].value == pytest.approx(plain[1].value)
    (a,), (b,) = (intervals([one[1]], 0.95, 600) for one in (plain, averaged))
    assert (b.low, b.high) == pytest.approx((a.low, a.high), abs=0.004)


def test_questions_of_one_image_in_several_categories_are_correlated():
    """Each image has a question of each category, all right or all wrong: the mean is no surer than one category's."""
    right = np.random.default_rng(6).random(200) < 0.6
    apart = cell_of(["a"] * 200 + ["b"] * 200, np.tile(right, 2), np.arange(400))
    together = cell_of(["a"] * 200 + ["b"] * 200, np.tile(right, 2), np.tile(np.arange(200), 2))
    (_, narrow), (one, wide) = (macro_of(cell, "accuracy", times=2000)["accuracy"] for cell in (apart, together))
    assert one.groups == 200
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(math.sqrt(2), rel=0.05)


def test_a_category_without_a_value_leaves_the_average_undefined_and_is_named():
    cell = cell_of(["a"] * 20 + ["b"] * 20, [1, 0] * 10 + [1] * 20, entropy=np.linspace(0, 1, 40))
    one, ends = macro_of(cell, "auroc")["auroc[entropy]"]
    assert math.isnan(one.value) and one.why.startswith("category=b: ") and math.isnan(ends.low)
    unscored = cell_of(["a"] * 20 + ["b"] * 20, [1, 0] * 10 + [np.nan] * 20)
    one, _ = macro_of(unscored, "accuracy")["accuracy"]
    assert math.isnan(one.value) and one.why == "category=b: no `correct`" and (one.n, one.n_unscored) == (20, 20)


def test_a_category_without_an_interval_leaves_the_average_without_one_and_is_named():
    cell = cell_of(["a"] * 20 + ["b"] * 3, [1, 0] * 10 + [1, 0, 1])
    one, ends = macro_of(cell, "accuracy")["accuracy"]
    assert one.value == pytest.approx((0.5 + 2 / 3) / 2)
    assert ends.why_none == "category=b: 3 scored groups: an interval needs 5"


def test_unscored_rows_are_summed_and_bounds_of_unread_answers_averaged():
    """Of a 1 of 4 is unread, 2 right: .5 if wrong, .75 if right. Of b all are read, 3 of 4 right."""
    cell = cell_of(["a"] * 4 + ["b"] * 4, [1, 1, 0, np.nan, 1, 1, 1, 0])
    one, _ = macro_of(cell, "accuracy")["accuracy"]
    assert (one.n, one.n_unscored, one.scored_share) == (7, 1, 7 / 8)
    assert one.if_unread == pytest.approx(((0.5 + 0.75) / 2, (0.75 + 0.75) / 2))


def test_crossed_fields_average_over_combinations():
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": i % 3 > 0, "category": "ab"[i % 2], "group": ""} for i in range(60)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    correct = np.random.default_rng(8).integers(0, 2, 60) * 1.0
    one, _ = macro_of(Cell("m", samples, "clean", {"correct": correct}, {}, {}), "accuracy", field="category*answerable")["accuracy"]
    place = np.arange(60)
    cells = [correct[(place % 2 == c) & ((place % 3 > 0) == a)].mean() for c in (0, 1) for a in (False, True)]
    assert one.value == pytest.approx(np.mean(cells))


def test_the_interval_of_a_mean_of_independent_estimates():
    """Of Student's t intervals with many degrees of freedom it is the normal interval of the mean, sqrt(sum SE^2) / k on either side."""
    errors, values = np.array([0.02, 0.05, 0.01]), [0.3, 0.6, 0.9]
    q = critical(0.9, 1e9)
    estimates = [ValueEstimate(v, Limits(v - q * e, v + q * e), 1e9, e) for v, e in zip(values, errors, strict=True)]
    reach = q * math.hypot(*errors) / 3
    ends = macro_limits(estimates, 0.9)
    assert (ends.low, ends.high) == pytest.approx((0.6 - reach, 0.6 + reach))
    together = macro_limits(estimates, 0.9, np.ones((3, 3)))
    assert together.high - 0.6 == pytest.approx(q * errors.sum() / 3), "of estimates that move together, the mean of the distances"


def test_degrees_of_freedom_are_those_of_satterthwaite():
    """Two equal errors of 4 degrees of freedom each have 8 together; a dominant one keeps its own."""
    q = critical(0.95, 4)
    equal = [ValueEstimate(0.0, Limits(-q, q), 4, 0.5)] * 2
    assert macro_limits(equal, 0.95).high == pytest.approx(stats.t.ppf(0.975, 8) * math.sqrt(2) / 2)
    assert macro_limits(equal, 0.95, most_freedom=5).high == pytest.approx(stats.t.ppf(0.975, 5) * math.sqrt(2) / 2)
    apart = [ValueEstimate(0.0, Limits(-q, q), 4, 0.5), ValueEstimate(0.0, Limits(-1e-9, 1e-9), 400, 0.0)]
    assert macro_limits(apart, 0.95).high == pytest.approx(q / 2)


def test_correlations_over_common_resamples():
    drawn = np.random.default_rng(0).normal(size=(2, 500))
    found = correlations([drawn[0], drawn[0] + drawn[1], np.full(500, 0.5)])
    np.testing.assert_allclose(found[:2, :2], np.corrcoef(drawn[0], drawn[0] + drawn[1]))
    assert found[2].tolist() == [0, 0, 1], "what does not vary is uncorrelated"
    holes = np.where(np.arange(500) % 7 == 0, np.nan, drawn[0])
    assert correlations([holes, holes])[0, 1] == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "shares"), [((20, 400), (0.9, 0.7)), ((8, 8, 8, 500), (0.8,) * 4), ((6,) * 30, (0.8,) * 30)])
def test_the_interval_holds_the_mean_of_shares_in_uneven_categories(sizes, shares):
    """Where all answers of a small category are right, resamples see none of its spread; of many small ones intervals are skewed.

    In these very runs, percentiles of the resamples hold it in .87 to .93, and 1.96 of their standard deviations in .87 to .94.
    """
    rng, inside, runs = np.random.default_rng(11), 0, 150
    category = np.repeat([f"c{k}" for k in range(len(sizes))], sizes)
    samples = cell_of(category, np.ones(len(category))).samples
    part = make_slices(samples, [], 100, 7, ["category"])[-1]
    for _ in range(runs):
        correct = 1.0 * (rng.random(len(category)) < np.repeat(shares, sizes))
        ((_, averaged),) = evaluate(metrics("accuracy"), Cell("m", samples, "clean", {"correct": correct}, {}, {}), part)
        (ends,) = intervals([averaged], 0.95, part.bootstrap.groups)
        inside += ends.low <= np.mean(shares) <= ends.high
    assert inside / runs > 0.95
