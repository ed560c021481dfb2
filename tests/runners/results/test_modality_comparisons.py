"""Tests between modalities: differences by hand, and how often equal ones are told apart."""

import numpy as np
import pytest
from scipy import stats

from qualm.registry.sample import MODALITY_COMPARISONS
from qualm.runners.results.perturbation import modality_comparisons
from qualm.runners.scoring.measuring.measured import Measured
from qualm.runners.scoring.measuring.metrics import read_metrics

METRICS = read_metrics([{"label": n, "plugin": n, "args": {}} for n in ("uncertainty_reflection_rate", "accuracy", "mean_uncertainty")])
URR = "uncertainty_reflection_rate[e]"


def measured(values, times=400, seed=1):
    """The mean of each column of (groups, k) values in shared resamples."""
    picks = np.random.default_rng(seed).integers(0, len(values), (times, len(values)))
    return [Measured(float(of.mean()), of[picks].mean(axis=1), len(of), 0, groups=len(of)) for of in values.T]


def compared(means, groups=100, family="study", label=URR):
    return modality_comparisons({("m", "d", "all", label): means}, {("m", "d"): groups}, METRICS, 0.95, family)


def test_the_difference_of_two_modalities_is_paired():
    values = np.clip(np.random.default_rng(3).normal([0.4, 0.45, 0.8], 0.1, (100, 3)), 0, 1)
    rows = compared(dict(zip(("cross", "text", "image"), measured(values), strict=True)))
    assert [(r["a"], r["b"]) for r in rows] == [("image", "text"), ("image", "cross"), ("text", "cross")]
    assert all(set(row) == set(MODALITY_COMPARISONS.names) for row in rows)
    last = rows[-1]
    assert last["difference"] == pytest.approx(values[:, 0].mean() - values[:, 1].mean(), abs=1e-6)
    assert last["low"] < last["difference"] < last["high"] and last["n"] == 100
    assert last["p"] == pytest.approx(stats.ttest_rel(values[:, 0], values[:, 1]).pvalue, rel=1.0)
    assert rows[0]["p_adjusted"] < 0.05 and all(r["p_adjusted"] >= r["p"] - 1e-6 for r in rows)


def test_undefined_means_few_groups_and_metrics_without_direction_are_not_compared():
    image, text = measured(np.random.default_rng(4).random((100, 2)))
    assert len(compared({"image": image, "text": text})) == 1
    nothing = Measured(float("nan"), np.empty(0), 0, 9, "no rows")
    assert compared({"image": image, "text": nothing}) == [] == compared({"image": image})
    assert compared({"image": image, "text": text}, groups=19) == [] and len(compared({"image": image, "text": text}, groups=20)) == 1
    assert compared({"image": image, "text": text}, label="mean_uncertainty[e]") == []


@pytest.mark.slow
def test_equal_modalities_are_seldom_distinguished():
    """Three equal modalities of eight estimators: some pair is told apart in at most .09 of 150 studies."""
    rng, alarms = np.random.default_rng(5), 0
    for study in range(150):
        shared = rng.random((80, 1))
        means = {}
        for estimator in range(8):
            values = (rng.random((80, 3)) + shared) / 2
            means["m", "d", "all", f"uncertainty_reflection_rate[e{estimator}]"] = dict(
                zip(("image", "text", "cross"), measured(values, 300, study), strict=True)
            )
        rows = modality_comparisons(means, {("m", "d"): 80}, METRICS, 0.95, "study")
        alarms += any(r["p_adjusted"] < 0.05 for r in rows)
    assert alarms <= 13
