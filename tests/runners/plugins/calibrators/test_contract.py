"""What every calibrator keeps, whoever wrote it."""

import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.grouped_weights import Weights


@pytest.fixture(params=registry.names("calibrators"))
def calibrator(request):
    return registry.load("calibrators", request.param)


RNG = np.random.default_rng(0)
N = 90
SCORE = RNG.normal(size=N).round(1)
RIGHT = (RNG.random(N) < 1 / (1 + np.exp(-1 - SCORE))).astype(float)
AT = np.r_[np.linspace(-4, 4, 25), SCORE[:10]]
GROUP = np.arange(N) // 3
COUNTS = np.vstack([np.ones(30), RNG.multinomial(30, np.ones(30) / 30, size=4)]).astype(float)


def test_probabilities_of_each_resample(calibrator):
    found = calibrator(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
    assert found.shape == (5, len(AT))
    assert ((found >= 0) & (found <= 1)).all()


def test_a_resample_is_the_rows_that_it_draws_as_often_as_it_draws_them(calibrator):
    found = calibrator(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
    for one, counts in zip(found, COUNTS, strict=True):
        rows = np.repeat(np.arange(N), counts[GROUP].astype(int))
        np.testing.assert_allclose(calibrator(SCORE[rows], RIGHT[rows], np.ones((1, len(rows))), AT)[0], one, atol=1e-6)


def test_neither_the_order_of_rows_nor_other_answers_that_are_read_change_anything(calibrator):
    found = calibrator(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
    order = RNG.permutation(N)
    np.testing.assert_allclose(calibrator(SCORE[order], RIGHT[order], Weights(COUNTS, GROUP[order]), AT), found, atol=1e-7)
    np.testing.assert_allclose(calibrator(SCORE, RIGHT, Weights(COUNTS, GROUP), AT[7:9]), found[:, 7:9], atol=1e-12)


def test_what_counts_more_often_than_not_right_is_likely_right(calibrator):
    """A confidence that is right nearly always when high, nearly never when low."""
    score = np.repeat([-3.0, 3.0], 200)
    right = np.r_[np.zeros(190), np.ones(10), np.ones(190), np.zeros(10)]
    low, high = calibrator(score, right, np.ones((1, 400)), np.array([-3.0, 3.0]))[0]
    assert low < 0.12 and high > 0.88
