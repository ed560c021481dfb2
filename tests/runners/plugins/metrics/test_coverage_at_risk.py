import numpy as np
import pytest

from qualm.runners.plugins.metrics.coverage_at_risk import coverage_at_risk
from qualm.runners.scoring.bootstrap import Bootstrap

CONFIDENCE, SCORE = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1.0, 1, 0, 1, 0])


@pytest.mark.parametrize(("risk", "expected"), [(0.2, 0.4), (0.25, 0.8), (0.4, 1.0)])
def test_worked_example(risk, expected):
    assert coverage_at_risk(CONFIDENCE, SCORE, np.ones((1, 5)), risk=risk)[0] == pytest.approx(expected)


def scan(confidence, score, risk):
    """The definition, from full coverage down."""
    order = np.argsort(-confidence, kind="stable")
    confidence, score = confidence[order], score[order]
    for k in range(len(score), 0, -1):
        whole = k == len(score) or confidence[k] != confidence[k - 1]
        if whole and 1 - score[:k].mean() <= risk + 1e-9:
            return k / len(score)
    return 0.0


def test_against_the_scan_in_every_resample():
    rng = np.random.default_rng(1)
    confidence, score = rng.integers(0, 12, 50) / 12, rng.integers(0, 3, 50) / 2
    (weights,) = Bootstrap(rng.integers(0, 20, 50), 30, 1).blocks()
    for risk in (0.1, 0.3, 0.5):
        for value, row in zip(coverage_at_risk(confidence, score, weights, risk=risk), np.asarray(weights).astype(int), strict=True):
            drawn = np.repeat(np.arange(50), row)
            assert value == pytest.approx(scan(confidence[drawn], score[drawn], risk))


def test_a_risk_that_is_met_exactly():
    score = np.array([1.0] * 9 + [0.0])
    assert coverage_at_risk(np.linspace(1, 0.1, 10), score, np.ones((1, 10)), risk=0.1)[0] == 1
