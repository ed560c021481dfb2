"""Calibrating anew: thresholds against numpy's own quantiles, sets against the stage's, the band against scipy."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration import conformal_draws as draws
from qualm.runners.scoring.calibration.conformal_band import band, describe_guarantee, design_effect, independent_rows
from qualm.runners.scoring.calibration.conformal_draws import NODES, nodes, redraw, weighted_threshold
from qualm.runners.scoring.calibration.conformal_sets import prediction_sets, shares, threshold

N, K = 300, 4


def setting(**changes):
    return {"alpha": 0.2, "quantile": "standard", "empty_set": "argmax", "calibration": {"split": "groups", "seed": 1}} | changes


def samples(group=()):
    """N multiple-choice questions, in groups or each by itself."""
    same = {"question": "?", "choices": list("ABCD"), "answerable": True}
    groups = [str(code) for code in group] or [""] * N
    return Samples("d", pa.Table.from_pylist([same | {"sample_id": f"s{i}", "group": g} for i, g in enumerate(groups)], schema=SAMPLES))


def probabilities(seed=0):
    rng = np.random.default_rng(seed)
    powers = np.exp(rng.normal(size=(N, K)) * 2)
    probs = powers / powers.sum(axis=1, keepdims=True)
    probs[::7, 3] = np.nan
    probs[5] = np.nan
    return probs, rng.integers(0, 3, N), (rng.random(N) < 0.5).astype(float)


@pytest.mark.parametrize("quantile", ["standard", "numpy_higher"])
@pytest.mark.parametrize("window", [1, 32])
def test_thresholds_of_resamples_are_those_of_the_rows_written_out(quantile, window, monkeypatch):
    monkeypatch.setattr(draws, "WINDOW", window)
    rng = np.random.default_rng(1)
    scores = np.sort(rng.random(60).round(2))
    (weights,) = Bootstrap(np.arange(60) // 3, 50, 1).blocks()
    found = weighted_threshold(scores, np.ones(60), weights, 0.15, quantile)
    for counts, limit in zip(np.asarray(weights), found, strict=True):
        assert limit == threshold(np.repeat(scores, counts.astype(int)), 0.15, quantile)


@pytest.mark.parametrize("window", [1, 32])
def test_thresholds_of_resamples_are_those_of_the_groups_written_out(window, monkeypatch):
    """A group that is drawn twice is two groups."""
    monkeypatch.setattr(draws, "WINDOW", window)
    rng = np.random.default_rng(1)
    group, scores = rng.integers(0, 12, 60) ** 2, np.sort(rng.random(60).round(2))
    calibrates = np.flatnonzero(group % 2 == 0)
    group_of, scores = group[calibrates], scores[calibrates]
    (drawn,) = Bootstrap(group, 80, 1).blocks()
    weights = drawn.rows(calibrates)
    found = weighted_threshold(scores, shares(group_of), weights, 0.15, "standard")
    assert 0 < np.isinf(found).sum() < 80
    for counts, limit in zip(np.asarray(weights).astype(int), found, strict=True):
        copies = np.concatenate([np.arange(count) for count in counts])
        assert limit == threshold(np.repeat(scores, counts), 0.15, "standard", 1000 * np.repeat(group_of, counts) + copies)


def test_sets_are_never_empty_only_where_empty_ones_are_filled():
    probs, truth, calibrates = probabilities()
    lac = {"label": "lac", "plugin": "lac", "args": {}}
    filled, kept = (
        redraw(setting(empty_set=how), lac, probs, probs, truth, calibrates, samples()).never_empty for how in ("argmax", "keep")
    )
    assert filled.all() and not kept.any()


def test_too_few_rows_to_calibrate_on_let_everything_in():
    weights = Weights(np.array([[1.0, 1], [0, 0], [9, 9]]), np.array([0, 1]))
    assert weighted_threshold(np.array([0.2, 0.3]), np.ones(2), weights, 0.1, "standard").tolist() == [math.inf, math.inf, 0.3]


@pytest.mark.parametrize("plugin", ["lac", "aps"])
@pytest.mark.parametrize("empty", ["argmax", "empty"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_sets_at_the_samples_own_threshold_are_those_of_the_stage(plugin, empty, precision):
    from qualm.registry.plugins import registry

    probs, truth, calibrates = probabilities()
    probs = probs.astype(np.float32 if precision == "single" else np.float64)
    one = redraw(
        setting(empty_set=empty, precision=precision),
        {"label": plugin, "plugin": plugin, "args": {}},
        probs,
        probs,
        truth,
        calibrates,
        samples(),
    )
    scores = registry.load("conformal", plugin)(probs)
    rows = np.flatnonzero((calibrates == 1) & ~np.isnan(probs).all(axis=1) & ~np.isnan(probs[np.arange(N), truth]))
    limit = threshold(scores[rows, truth[rows]].astype(probs.dtype), 0.2, "standard")
    assert one.kept == (limit,)
    inside, _ = prediction_sets(scores, probs, limit, empty, precision)
    known = np.flatnonzero(~np.isnan(probs).all(axis=1))
    found = one.sets(known, limit)
    assert (found["set_size"] == inside[known].sum(axis=1)).all()
    assert (found["covered"] == inside[known, truth[known]]).all()


@given(st.lists(st.floats(0, 1) | st.just(math.inf), min_size=1, max_size=400))
def test_few_thresholds_stand_for_themselves_and_many_for_near_ones(limits):
    limits = np.array(limits)
    kept = (float(limits[0]),)
    chosen, which = nodes(limits, kept)
    assert chosen[which[0]] == limits[0]
    if len(np.unique(limits)) <= NODES:
        assert (chosen[which] == limits).all()
    else:
        assert len(chosen) <= NODES + 1
        place = np.searchsorted(chosen, limits)
        near = np.stack([chosen[np.clip(place - 1, 0, len(chosen) - 1)], chosen[np.clip(place, 0, len(chosen) - 1)]])
        assert ((chosen[which] == near[0]) | (chosen[which] == near[1])).all()


@pytest.mark.parametrize("values", [1, NODES])
def test_so_many_thresholds_as_are_computed_stand_for_themselves(values):
    limits = np.random.default_rng(0).permutation(np.arange(400) % values).astype(float)
    chosen, which = nodes(limits, (0.5,))
    assert chosen.tolist() == list(range(values)) and (chosen[which] == limits).all()


@pytest.mark.parametrize("times", [NODES + 1, 1000, 4001])
def test_what_stands_for_a_threshold_lies_within_half_a_share_of_them(times):
    """Of many different ones each that is computed stands for as many others below it as above."""
    limits = np.random.default_rng(0).permutation(times).astype(float)
    chosen, which = nodes(limits, (0.0,))
    assert np.abs(chosen[which] - limits).max() <= times / NODES / 2 + 1
    assert NODES <= len(chosen) <= NODES + 1


@pytest.mark.parametrize(("alpha", "calibration", "test"), [(0.1, 100, 400), (0.2, 57, 90), (0.05, 1000, 30), (0.1, 9, 40)])
def test_the_band_is_scipys_beta_binomial(alpha, calibration, test):
    k = math.ceil((calibration + 1) * (1 - alpha) - 1e-9)
    covered = stats.betabinom(test, k, calibration + 1 - k)
    found = band(alpha, "standard", [(calibration, test)], 1.0)
    assert (found.low, found.high) == pytest.approx((covered.ppf(0.025) / test, covered.ppf(0.975) / test))
    assert found.low <= found.target <= found.high
    assert band(alpha, "standard", [(calibration, test)], 4.0).low < found.low, "rows of groups count as fewer"


def test_rows_that_count_as_less_than_half_a_row_are_one_and_of_a_part_none():
    """Of one row nobody knows; beside 10 independent rows of another part a quarter of a row adds nothing."""
    alone = band(0.1, "standard", [(100, 1)], 4.0)
    assert (alone.low, alone.high, alone.calibration, alone.test) == (0, 1, 25, 0.25)
    one, both = (band(0.1, "standard", sizes, 4.0) for sizes in ([(100, 40)], [(100, 40), (100, 1)]))
    assert (one.low, one.high) == (both.low, both.high)


def test_a_promise_that_nobody_can_break():
    assert (band(0.1, "standard", [(5, 40)], 1.0).low, band(0.1, "standard", [(5, 40)], 1.0).high) == (1, 1)
    found = band(0.1, "standard", [(50, 40)], 2.0)
    assert describe_guarantee("question", found, is_clean=False).startswith("nothing is promised")
    sentence = describe_guarantee("question", found)
    assert sentence.startswith("at least 0.9 on average over draws") and "25 for calibration" in sentence


def test_each_promise_names_what_is_exchangeable():
    found = band(0.1, "standard", [(50, 40)], 2.0)
    assert "for a question drawn at random from a new group, each group counting once, on average" in describe_guarantee("group", found)
    assert "random splits of these questions" in describe_guarantee(
        "split", found
    ) and "not for questions of a new group" in describe_guarantee("split", found)
    assert describe_guarantee("none", found).startswith("nothing is promised: `quantile: numpy_higher`")


@pytest.mark.parametrize(
    ("changes", "group", "unit"),
    [
        ({}, np.arange(N), "question"),
        ({}, np.arange(N) // 3, "group"),
        ({"quantile": "numpy_higher"}, np.arange(N), "question"),
        ({"quantile": "numpy_higher"}, np.arange(N) // 3, "none"),
        ({"calibration": {"split": "rows"}}, np.arange(N) // 3, "split"),
        ({"calibration": {"split": "rows"}, "quantile": "numpy_higher"}, np.arange(N) // 3, "split"),
    ],
)
def test_groups_are_the_units_unless_rows_are_split_or_published_code_counts_rows(changes, group, unit):
    probs, truth, calibrates = probabilities()
    lac = {"label": "lac", "plugin": "lac", "args": {}}
    chosen = setting(**changes)
    one = redraw(chosen, lac, probs, probs, truth, calibrates, samples(group))
    own = ~np.isnan(one.calibration_scores)
    assert one.unit == unit
    units = group if unit == "group" else np.arange(N)
    assert one.kept == (threshold(one.calibration_scores[own], 0.2, chosen["quantile"], units[own]),)
    assert one.calibrating_units == [len(np.unique(units[own]))]


def test_too_few_groups_have_no_threshold_and_the_reason():
    probs, truth, _ = probabilities()
    group = np.arange(N) // 10
    lac, calibrates = {"label": "lac", "plugin": "lac", "args": {}}, (group < 5) * 1.0
    few, many = (redraw(setting(alpha=alpha), lac, probs, probs, truth, calibrates, samples(group)) for alpha in (0.1, 0.2))
    assert few.kept == (math.inf,) and math.isfinite(many.kept[0])
    why = "every set has all options: 5 groups of questions calibrate, and a threshold at alpha = 0.1 needs 9"
    assert (few.why_every_option, many.why_every_option) == (why, "")
    rows = np.arange(50, N)
    found = few.band(rows, np.ones(len(rows)), group[rows])
    assert (found.low, found.high, found.promise) == (1, 1, why)
    known = rows[~np.isnan(probs[rows]).all(axis=1)]
    assert (few.sets(known, math.inf)["set_size"] == (~np.isnan(probs[known])).sum(axis=1)).all()


def test_where_groups_differ_in_size_the_promise_has_their_mean_coverage():
    """One group of nine questions, none covered, and 30 of one question, all covered: .769 of questions, and .968 of groups."""
    probs, truth, _ = probabilities()
    lac, group = {"label": "lac", "plugin": "lac", "args": {}}, np.r_[np.arange(261), np.full(9, 261), np.arange(262, 292)]
    one = redraw(setting(), lac, probs, probs, truth, (group < 100) * 1.0, samples(group))
    rows, covered = np.arange(261, N), np.r_[np.zeros(9), np.ones(30)]
    assert "each group counting once (here 0.968), on average" in one.band(rows, covered, group[rows]).promise
    even = rows[8:]
    assert "each group counting once, on average" in one.band(even, covered[8:], group[even]).promise


def test_what_a_group_counts_as():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4000), 5)
    assert independent_rows((rng.random(4000) < 0.8).astype(float)[group], group) == pytest.approx(1, abs=0.01), "alike: as one row"
    assert independent_rows((rng.random(20_000) < 0.8).astype(float), group) == pytest.approx(5, rel=0.05), "independent: as its rows"
    assert independent_rows(np.ones(20), np.arange(20) // 5) == independent_rows(np.array([1.0, 0]), np.zeros(2, dtype=int)) == 1, "unknown"
    uneven = np.repeat(np.arange(4000), np.tile([1, 9], 2000))
    assert independent_rows((rng.random(len(uneven)) < 0.8).astype(float), uneven) == pytest.approx(1.8, rel=0.05), "their harmonic mean"


def test_the_band_of_groups_is_that_of_their_rows_where_these_are_independent_and_of_groups_where_alike():
    alike, independent = (band(0.1, "standard", [(20, 200)], 1.0, each) for each in (1.0, 5.0))
    for found, calibration, k in ((alike, 20, 19), (independent, 100, 95)):  # ceil(21 x .9), ceil(5 x 21 x .9)
        covered = stats.betabinom(200, k, calibration + 1 - k)
        assert (found.low, found.high) == pytest.approx((covered.ppf(0.025) / 200, covered.ppf(0.975) / 200))
        assert found.calibration == calibration


def test_the_design_effect():
    assert design_effect(np.tile([1.0, 0], 50), np.arange(100)) == pytest.approx(100 / 99)
    assert design_effect(np.repeat([1.0, 0] * 5, 10), np.repeat(np.arange(10), 10)) == pytest.approx(100 / 9)
    assert design_effect(np.repeat([1.0, 0] * 5, 10), np.repeat(np.arange(10), 10) * 3) == pytest.approx(100 / 9), "numbers with gaps"
    for alike in (np.ones(40), np.zeros(40)):
        assert design_effect(alike, np.repeat(np.arange(10), 4)) == 4, "unknown where nothing varies: a group counts as one"
    assert design_effect(np.array([1.0, 0, 1, 0]), np.zeros(4, dtype=int)) == 4, "of one group too"
    assert design_effect(np.tile([1.0, 0], 20), np.arange(40) // 2) == 1, "rows that make up for each other are no more than they are"


def test_the_band_of_some_rows_is_of_the_rows_that_calibrate_and_of_these():
    probs, truth, calibrates = probabilities()
    one = redraw(setting(), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates, samples())
    rows = np.flatnonzero(calibrates == 0)[:77]
    there = (calibrates == 1) & ~np.isnan(probs[np.arange(N), truth])
    covered, group = np.tile([1.0, 1, 1, 0, 0], 16)[:77], np.arange(77) // 5
    effect = design_effect(covered, group)
    expected = band(0.2, "standard", [(int(there.sum()), 77)], effect)
    assert one.band(rows, covered, group) == replace(expected, promise=describe_guarantee("question", expected))
    moved = redraw(setting(), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs[::-1], truth, calibrates, samples())
    assert moved.band(rows, covered, group).promise.startswith("nothing is promised")
    inside = 1 - probs[::-1] <= 0.6
    assert (moved.sets(rows, 0.6)["set_size"] == np.maximum(inside, np.isneginf(moved.enters)).sum(axis=1)[rows]).all()
    assert (moved.calibration_scores[there] == one.calibration_scores[there]).all(), "calibrated on clean inputs, read on others"


@pytest.mark.parametrize("empty", ["argmax", "empty"])
def test_sets_step_by_step_are_those_at_each_threshold(empty):
    probs, truth, calibrates = probabilities()
    one = redraw(setting(empty_set=empty), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates, samples())
    (steps,), rows = one.steps(Bootstrap(np.arange(N) // 2, 80, 1)), np.arange(N)
    columns = {name: of.copy() for name, of in steps.lowest.items()}
    for k, limit in enumerate(steps.limits):
        here = steps.at == k
        for name, of in columns.items():
            assert (of[steps.rows[here]] == steps.before[name][here]).all()
            of[steps.rows[here]] = steps.after[name][here]
            assert (of == one.sets(rows, limit)[name]).all()
