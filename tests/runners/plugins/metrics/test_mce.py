import numpy as np
import pytest

from qualm.runners.plugins.metrics.mce import mce

CONFIDENCE = np.array([0.95, 0.90, 0.80, 0.65, 0.60, 0.55, 0.30, 1.0])
CORRECT = np.array([1.0, 1, 0, 1, 0, 1, 0, 1])
NONE = np.zeros(8)
ONE = np.ones((1, 8))


@pytest.mark.parametrize(("convention", "of_five", "of_ten"), [("torchmetrics", 0.45, 0.8), ("guo", 0.30, 0.8), ("netcal", 0.35, 0.8)])
def test_worked_example(convention, of_five, of_ten):
    assert mce(CONFIDENCE, CORRECT, NONE, ONE, bins=5, convention=convention)[0] == pytest.approx(of_five)
    assert mce(CONFIDENCE, CORRECT, NONE, ONE, bins=10, convention=convention)[0] == pytest.approx(of_ten)


def test_against_torchmetrics():
    torch = pytest.importorskip("torch")
    from torchmetrics.functional.classification import binary_calibration_error

    rng = np.random.default_rng(0)
    confidence, correct = rng.random(500), rng.integers(0, 2, 500)
    expected = binary_calibration_error(torch.tensor(confidence), torch.tensor(correct), n_bins=15, norm="max")
    assert mce(confidence, correct * 1.0, np.zeros(500), np.ones((1, 500)))[0] == pytest.approx(float(expected), abs=1e-6)


def test_small_bins_can_be_passed_over():
    confidence, correct = np.array([0.95, 0.95, 0.95, 0.05]), np.array([1.0, 1, 0, 1])
    of = np.zeros(4)
    assert mce(confidence, correct, of, np.ones((1, 4)))[0] == pytest.approx(0.95)
    assert mce(confidence, correct, of, np.ones((1, 4)), min_count=2)[0] == pytest.approx(0.95 - 2 / 3)
    assert np.isnan(mce(confidence, correct, of, np.ones((1, 4)), min_count=4)[0])
