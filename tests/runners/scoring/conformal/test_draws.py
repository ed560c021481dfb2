"""Calibrating anew: thresholds against numpy's own quantiles, sets against the stage's, the band against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.conformal import draws
from qualm.runners.scoring.conformal.draws import NODES, band, design_effect, nodes, redraw, weighted_threshold
from qualm.runners.scoring.conformal.sets import prediction_sets, threshold

N, K = 300, 4


def setting(**changes):
    return {"alpha": 0.2, "quantile": "standard", "empty_set": "argmax"} | changes


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
    found = weighted_threshold(scores, weights, 0.15, quantile)
    for counts, limit in zip(np.asarray(weights), found, strict=True):
        assert limit == threshold(np.repeat(scores, counts.astype(int)), 0.15, quantile)


def test_sets_are_never_empty_only_where_empty_ones_are_filled():
    probs, truth, calibrates = probabilities()
    lac = {"label": "lac", "plugin": "lac", "args": {}}
    filled, kept = (redraw(setting(empty_set=how), lac, probs, probs, truth, calibrates).never_empty for how in ("argmax", "keep"))
    assert filled.all() and not kept.any()


def test_too_few_rows_to_calibrate_on_let_everything_in():
    weights = Weights(np.array([[1.0, 1], [0, 0], [9, 9]]), np.array([0, 1]))
    assert weighted_threshold(np.array([0.2, 0.3]), weights, 0.1, "standard").tolist() == [math.inf, math.inf, 0.3]


@pytest.mark.parametrize("plugin", ["lac", "aps"])
@pytest.mark.parametrize("empty", ["argmax", "empty"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_sets_at_the_samples_own_threshold_are_those_of_the_stage(plugin, empty, precision):
    from qualm.registry.plugins import rule

    probs, truth, calibrates = probabilities()
    probs = probs.astype(np.float32 if precision == "single" else np.float64)
    one = redraw(
        setting(empty_set=empty, precision=precision), {"label": plugin, "plugin": plugin, "args": {}}, probs, probs, truth, calibrates
    )
    scores = rule.load("conformal", plugin)(probs)
    rows = np.flatnonzero((calibrates == 1) & ~np.isnan(probs).all(axis=1) & ~np.isnan(probs[np.arange(N), truth]))
    limit = threshold(scores[rows, truth[rows]].astype(probs.dtype), 0.2, "standard")
    assert one.kept == (limit,)
    inside, _ = prediction_sets(scores, probs, limit, empty, precision)
    known = np.flatnonzero(~np.isnan(probs).all(axis=1))
    found = one.sets(known, limit)
    assert (found["set_size"] == inside[known].sum(axis=1)).all()
    assert (found["covered"] == inside[known, truth[known]]).all()


def test_a_second_models_rows_lie_behind_and_calibrate_each_side_by_itself():
    both = []
    for seed in (0, 3):
        probs, truth, calibrates = probabilities(seed)
        both.append(redraw(setting(), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates))
    joined = both[0].beside(both[1])
    assert joined.kept == both[0].kept + both[1].kept
    for side, one in enumerate(both):
        weights = Weights(np.eye(2)[[side]], np.repeat([0, 1], N))

        class Single:
            def blocks(self, weights=weights):
                yield weights

        assert joined.thresholds(Single())[0] == one.kept[0]
        assert (joined.sets(np.arange(N) + side * N, 0.9)["set_size"] == one.sets(np.arange(N), 0.9)["set_size"]).all()


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
    one, both = (band(0.1, "standard", sizes, 4.0, within="category") for sizes in ([(100, 40)], [(100, 40), (100, 1)]))
    assert (one.low, one.high) == (both.low, both.high)


def test_a_promise_that_nobody_can_break():
    assert (band(0.1, "standard", [(5, 40)], 1.0).low, band(0.1, "standard", [(5, 40)], 1.0).high) == (1, 1)
    assert band(0.1, "standard", [(50, 40)], 1.0, clean=False).promise.startswith("nothing is promised")
    assert (
        "at least 0.9 on average" in band(0.1, "standard", [(50, 40)], 2.0).promise
        and "25 independent" in band(0.1, "standard", [(50, 40)], 2.0).promise
    )


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
    one = redraw(setting(), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates)
    rows = np.flatnonzero(calibrates == 0)[:77]
    there = (calibrates == 1) & ~np.isnan(probs[np.arange(N), truth])
    assert one.band(rows, 2.0) == band(0.2, "standard", [(int(there.sum()), 77)], 2.0)
    moved = redraw(setting(), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs[::-1], truth, calibrates)
    assert moved.band(rows, 2.0).promise.startswith("nothing is promised")
    inside = 1 - probs[::-1] <= 0.6
    assert (moved.sets(rows, 0.6)["set_size"] == np.maximum(inside, np.isneginf(moved.enters)).sum(axis=1)[rows]).all()
    assert (moved.own[there] == one.own[there]).all(), "calibrated on clean inputs, read on others"


@pytest.mark.parametrize("empty", ["argmax", "empty"])
def test_sets_step_by_step_are_those_at_each_threshold(empty):
    probs, truth, calibrates = probabilities()
    one = redraw(setting(empty_set=empty), {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates)
    steps, rows = one.steps(Bootstrap(np.arange(N) // 2, 80, 1)), np.arange(N)
    columns = {name: of.copy() for name, of in steps.lowest.items()}
    for k, limit in enumerate(steps.limits):
        here = steps.at == k
        for name, of in columns.items():
            assert (of[steps.rows[here]] == steps.before[name][here]).all()
            of[steps.rows[here]] = steps.after[name][here]
            assert (of == one.sets(rows, limit)[name]).all()
