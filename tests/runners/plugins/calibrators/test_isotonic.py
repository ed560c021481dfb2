"""Isotonic regression against scikit-learn's, with ties, plateaus and weights."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from qualm.runners.plugins.calibrators.isotonic import isotonic

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_each_resample_is_scikit_learns(digits):
    score = RNG.normal(size=200).round(digits)
    right = RNG.choice([0.0, 0.5, 1.0], 200)
    weights = np.vstack([np.ones(200), RNG.multinomial(200, np.ones(200) / 200, size=3)]).astype(float)
    at = np.r_[np.linspace(-5, 5, 41), score[:20]]
    for found, drawn in zip(isotonic(score, right, weights, at), weights, strict=True):
        model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score[drawn > 0], right[drawn > 0], drawn[drawn > 0])
        np.testing.assert_allclose(found, model.predict(at), atol=1e-12)


def test_a_plateau_by_hand():
    found = isotonic(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1]), np.ones((1, 4)), np.array([0.0, 1, 2, 2.5, 3, 3.5, 9]))
    np.testing.assert_allclose(found[0], [0, 0, 0.5, 0.5, 0.5, 0.75, 1])


def test_never_above_1_where_interpolation_is_rounded():
    score, right = np.repeat([-0.92, 0.68], [6, 1]), np.r_[1.0, np.zeros(5), 1]
    assert isotonic(score, right, np.ones((1, 7)), np.nextafter([0.68], -9))[0, 0] == 1
