"""Against torchmetrics, and the table of conventions of the method notes (torchmetrics, Guo, netcal, lm-polygraph)."""

import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece import ece

CONFIDENCE = np.array([0.95, 0.90, 0.80, 0.65, 0.60, 0.55, 0.30, 1.0])
CORRECT = np.array([1.0, 1, 0, 1, 0, 1, 0, 1])
NONE = np.zeros(8)


@pytest.mark.parametrize(
    ("bins", "convention", "expected"),
    [
        (5, "torchmetrics", 0.20625),
        (10, "torchmetrics", 0.24375),
        (15, "torchmetrics", 0.24375),
        (5, "guo", 0.13125),
        (10, "guo", 0.21875),
        (15, "guo", 0.21875),
        (5, "netcal", 0.18125),
        (10, "netcal", 0.21875),
        (15, "netcal", 0.24375),
        (20, "lm_polygraph", 0.33125),
    ],
)
def test_worked_example(bins, convention, expected):
    assert ece(CONFIDENCE, CORRECT, NONE, np.ones((1, 8)), bins=bins, convention=convention)[0] == pytest.approx(expected)


def test_against_torchmetrics():
    torch = pytest.importorskip("torch")
    from torchmetrics.functional.classification import binary_calibration_error

    rng = np.random.default_rng(0)
    confidence, correct = rng.random(500), rng.integers(0, 2, 500)
    for bins in (1, 7, 15):
        expected = binary_calibration_error(torch.tensor(confidence), torch.tensor(correct), n_bins=bins)
        assert ece(confidence, correct * 1.0, np.zeros(500), np.ones((1, 500)), bins=bins)[0] == pytest.approx(float(expected), abs=1e-6)


def test_edges():
    same = np.full(4, 0.75)
    assert ece(same, np.array([1.0, 1, 1, 0]), np.zeros(4), np.ones((1, 4)))[0] == 0
    with pytest.raises(ValueError, match=r"confidence: expected numbers in \[0, 1\], got 0.5 to 1.2"):
        ece(np.array([1.2, 0.5]), np.ones(2), np.zeros(2), np.ones((1, 2)))


def test_the_interval_reaches_zero_unless_calibration_is_refuted_and_then_lies_around_the_gap():
    from qualm.runners.plugins.metrics.ece import interval

    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.6, 1, 400)
    right = (rng.random(400) < confidence).astype(float)
    none = np.zeros(400)
    low, high = interval(confidence, right, none, np.arange(400), 0.95)
    assert low == 0 < high < 0.1
    worse = (rng.random(400) < confidence - 0.3).astype(float)
    low, high = interval(confidence, worse, none, np.arange(400), 0.95)
    assert 0.2 < low < 0.3 < high < 0.4
    wide = interval(np.repeat(confidence[:40], 10), np.repeat(worse[:40], 10), none, np.repeat(np.arange(40), 10), 0.95)
    assert wide == pytest.approx(interval(confidence[:40], worse[:40], none[:40], np.arange(40), 0.95)), "copies say nothing new"


def test_calibration_is_refuted_on_the_rows_that_count_and_in_words():
    from qualm.runners.plugins.metrics.ece import null_test

    confidence, wrong_half = np.full(80, 0.7), np.tile([1.0, 0.0], 40)
    half = (np.arange(80) < 40).astype(float)
    right = np.where(half == 1, wrong_half, (np.arange(80) % 10 < 7).astype(float))
    p, words = null_test(confidence, right, half, np.arange(80))
    assert p > 0.5 and words == "confidence is each answer's chance to be right; answers of one group are correlated by 0.00"
    assert null_test(confidence, right, 1 - half, np.arange(80))[0] < 0.01
    assert null_test(confidence, right, 1 - half, np.arange(80) // 20)[0] > 0.01, "two groups say little"


def test_answers_that_are_all_right_say_little_of_a_constant_confidence():
    """Nothing varies, so resamples show no spread; accuracy may be as low as Wilson's interval of as many groups has it."""
    from statsmodels.stats.proportion import proportion_confint

    from qualm.runners.plugins.metrics.ece import interval

    low, high = interval(np.full(2000, 0.6), np.ones(2000), np.zeros(2000), np.arange(2000), 0.95)
    unseen = 1 - proportion_confint(2000, 2000, method="wilson")[0]
    assert (low, high) == pytest.approx((0.4 - unseen, 0.4), abs=1e-4), "errors can only bring accuracy nearer"
    few = interval(np.full(2000, 0.6), np.ones(2000), np.zeros(2000), np.arange(2000) // 200, 0.95)
    assert few[0] < 0.2 and few[1] == pytest.approx(0.4), "ten groups are ten answers"
