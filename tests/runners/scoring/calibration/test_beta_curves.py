"""Beta curves of many resamples: against scipy.optimize and scikit-learn, one resample after the other."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from qualm.runners.scoring.calibration.beta_curves import beta_curves

RNG = np.random.default_rng(3)
N = 300
CONFIDENCE = RNG.beta(2, 1, N)
SCORE = np.log(CONFIDENCE / (1 - CONFIDENCE))
WEIGHTS = np.vstack([np.ones(N), RNG.multinomial(N, np.ones(N) / N, size=6)]).astype(float)
ENDS = np.column_stack([np.log(CONFIDENCE), -np.log(1 - CONFIDENCE)])


def drawn_with(a: float, b: float, c: float) -> np.ndarray:
    return (np.random.default_rng(4).random(N) < 1 / (1 + np.exp(-(ENDS @ [a, b]) - c))).astype(float)


def test_with_positive_slopes_it_is_logistic_regression_on_both_logarithms():
    right = drawn_with(2.0, 0.7, 0.8)
    fits = beta_curves(SCORE, right, WEIGHTS)
    inside = 0
    for fit, weights in zip(fits, WEIGHTS, strict=True):
        model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000).fit(ENDS, right, sample_weight=weights)
        if (model.coef_ > 0).all():
            np.testing.assert_allclose(fit, [*model.coef_[0], model.intercept_[0]], rtol=1e-3, atol=1e-4)
            inside += 1
    assert inside >= 3


@pytest.mark.parametrize("truth", [(3.0, -1.0, 0.5), (-0.5, 1.5, 0.0), (-1.0, -1.0, 0.5), (2.0, 0.7, 0.8)])
def test_slopes_are_held_at_nothing_as_a_bounded_search_has_them(truth):
    right = np.where(RNG.random(N) < 0.1, 0.5, drawn_with(*truth))
    for fit, weights in zip(beta_curves(SCORE, right, WEIGHTS), WEIGHTS, strict=True):

        def loss(x, weights=weights):
            odds = ENDS @ x[:2] + x[2]
            return (weights * (np.logaddexp(0, odds) - right * odds)).sum()

        best = minimize(loss, [1.0, 1.0, 0.0], method="L-BFGS-B", bounds=[(0, None), (0, None), (None, None)], options={"ftol": 1e-14})
        assert (fit[:2] >= 0).all() and loss(fit) <= best.fun + 1e-6
        np.testing.assert_allclose(fit[:2] @ ENDS.T + fit[2], best.x[:2] @ ENDS.T + best.x[2], atol=0.02)


def test_no_fit_where_a_threshold_separates_or_all_are_right():
    assert np.isnan(beta_curves(SCORE, (SCORE > 0.3).astype(float), WEIGHTS)).all()
    assert np.isnan(beta_curves(SCORE, np.ones(N), WEIGHTS)).all()


@pytest.mark.parametrize(
    "right",
    [SCORE < 0.3, (SCORE > 0.2) & (SCORE < 0.8), np.where(SCORE < 0.3, np.arange(N) % 3 == 0, 0)],
    ids=["below", "between", "some below"],
)
def test_a_curve_that_may_not_fall_has_a_fit_where_one_that_falls_would_separate(right):
    """Unlike where one that rises separates."""
    right = right.astype(float)
    fit = beta_curves(SCORE, right, WEIGHTS[:1])[0]

    def loss(x):
        odds = x[:2] @ ENDS.T + x[2]
        return float((np.logaddexp(0, odds) - right * odds).sum())

    best = minimize(
        loss, [0.1, 0.1, 0.0], method="L-BFGS-B", bounds=[(0, None), (0, None), (-50, 50)], options={"ftol": 1e-15, "gtol": 1e-10}
    )
    assert (fit[:2] >= 0).all() and loss(fit) <= best.fun + 1e-6


@pytest.mark.parametrize("far", [1.0, 36.0, 700.0])
def test_two_confidences(far):
    """Right at the higher alone: no fit. At the lower alone: the share of right answers. Nobody is warned of what is meant to be."""
    score, weights = np.array([-far, -far, far] * 10), np.ones((1, 30))
    with np.errstate(invalid="raise"):
        assert np.isnan(beta_curves(score, (score > 0).astype(float), weights)).all()
        for right, share in (((score < 0).astype(float), 2 / 3), (np.array([1.0, 0, 0] * 10), 1 / 3)):
            np.testing.assert_allclose(beta_curves(score, right, weights), [[0, 0, np.log(share / (1 - share))]], atol=1e-6)


def test_one_confidence_alone_gives_the_share_of_right_answers():
    right = np.r_[np.ones(30), np.zeros(10)]
    a, b, c = beta_curves(np.full(40, 2.0), right, np.ones((1, 40)))[0]
    p = 1 / (1 + np.exp(-2.0))
    assert 1 / (1 + np.exp(-(a * np.log(p) - b * np.log(1 - p) + c))) == pytest.approx(0.75)
