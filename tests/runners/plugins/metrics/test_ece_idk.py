import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece import ece
from qualm.runners.plugins.metrics.ece_idk import ece_idk

CONFIDENCE, CORRECT = np.array([0.9, 0.6, 0.8, 0.3]), np.array([0.0, 1, 1, 0])


def test_worked_example():
    assert ece_idk(CONFIDENCE, CORRECT, np.ones(4), np.ones((1, 4)))[0] == pytest.approx(0.45)


def test_it_is_the_error_over_unanswerable_questions():
    rng = np.random.default_rng(0)
    confidence, correct, gt = rng.random(80), rng.integers(0, 2, 80) * 1.0, rng.integers(0, 2, 80) * 1.0
    idk = gt == 1
    for convention in ("torchmetrics", "guo", "lm_polygraph", "netcal"):
        expected = ece(confidence[idk], correct[idk], np.zeros(idk.sum()), np.ones((1, idk.sum())), bins=10, convention=convention)
        assert ece_idk(confidence, correct, gt, np.ones((1, 80)), bins=10, convention=convention)[0] == pytest.approx(expected[0])
