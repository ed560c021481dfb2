"""Tau-b against SciPy's; rows and intervals of the study by hand."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from qualm.runners.results.rank_stability import stability, tau_b


def test_tau_b_is_scipys_with_ties_too():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, (200, 7)).astype(float), rng.normal(size=(200, 7)).round(1)
    expected = [kendalltau(x, y).statistic for x, y in zip(a, b, strict=True)]
    assert tau_b(a, b) == pytest.approx(np.array(expected))


def test_last_digits_make_no_order():
    a, b = np.array([[0.5, 0.5 + 1e-16, 0.7, 0.8]]), np.array([[0.1, 0.2, 0.3, 0.4]])
    assert tau_b(a, b) == pytest.approx(kendalltau([0.5, 0.5, 0.7, 0.8], b[0]).statistic)
    assert np.isnan(tau_b(0.5 + np.array([[0, 1e-16, 3e-16]]), b[:, :3]))


def test_a_ranking_of_ties_or_with_a_gap_has_no_tau():
    rows = np.array([[1.0, 1, 1], [1, 2, np.nan], [1, 2, 3]])
    assert np.isnan(tau_b(rows, np.array([[1.0, 2, 3]] * 3))).tolist() == [True, True, False]


def tables(noise=0.0):
    rng = np.random.default_rng(1)
    values = {"e1": 0.9, "e2": 0.7, "e3": 0.5, "e4": 0.3}

    def drawn(v, flip):
        return np.concatenate([[-v if flip else v], (-v if flip else v) + rng.normal(0, noise, 200)])

    places = [("auroc", "m1", "d"), ("auroc", "m2", "d"), ("urr", "m1", "d"), ("urr", "m2", "x")]
    return {place: {e: drawn(v, place[1] == "m2") for e, v in values.items()} for place in places}


def test_pairs_share_a_metric_or_are_one_model_on_one_dataset():
    found = list(stability(tables(), 0.95))
    pairs = {(r["metric_a"], r["model_a"], r["dataset_a"], r["metric_b"], r["model_b"], r["dataset_b"]): r["tau_b"] for r in found}
    assert pairs == {
        ("auroc", "m1", "d", "auroc", "m2", "d"): -1.0,
        ("auroc", "m1", "d", "urr", "m1", "d"): 1.0,
        ("urr", "m1", "d", "urr", "m2", "x"): -1.0,
    }
    assert {(r["low"], r["high"]) for r in found} == {(-1.0, -1.0), (1.0, 1.0)}


def test_the_interval_is_the_percentiles_of_tau_over_resamples():
    of = tables(noise=0.3)
    row = next(iter(stability(of, 0.9)))
    (a, b) = list(of.values())[:2]
    drawn = [kendalltau([a[e][k] for e in a], [b[e][k] for e in b]).statistic for k in range(1, 201)]
    assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])))
    assert row["n_estimators"] == 4
    of["auroc", "m2", "d"]["e3"] = of["auroc", "m2", "d"]["e3"][:151]
    short = next(iter(stability(of, 0.9)))
    assert (short["low"], short["high"]) == pytest.approx(tuple(np.quantile(drawn[:150], [0.05, 0.95]))), "where all have been drawn"


def test_fewer_than_three_estimators_are_no_ranking():
    of = {place: {e: values[e] for e in ("e1", "e2")} for place, values in tables().items()}
    assert {r["tau_b"] for r in stability(of, 0.95)} == {None}
    gap = tables()
    gap["auroc", "m1", "d"]["e1"][0] = np.nan
    assert next(iter(stability(gap, 0.95)))["n_estimators"] == 3


@pytest.mark.parametrize(("gaps", "told"), [(100, True), (101, False)])
def test_no_interval_where_most_resamples_have_no_ranking(gaps, told):
    of = tables(noise=0.3)
    of["auroc", "m1", "d"]["e1"][1 : 1 + gaps] = np.nan
    row = next(iter(stability(of, 0.9)))
    assert row["tau_b"] == -1.0 and (row["low"] is not None) == (row["high"] is not None) == told


def test_three_estimators_are_a_ranking():
    of = {place: {e: values[e] for e in ("e1", "e2", "e3")} for place, values in tables().items()}
    assert [(r["n_estimators"], abs(r["tau_b"])) for r in stability(of, 0.95)] == [(3, 1.0)] * 3
