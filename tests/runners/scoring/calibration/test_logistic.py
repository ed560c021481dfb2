"""Temperature and sigmoid of many resamples: against scipy.optimize and scikit-learn, one resample after the other."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from qualm.runners.scoring.calibration import newton
from qualm.runners.scoring.calibration.logistic import WIDEST, sigmoids, softmax_at_temperatures, temperatures

RNG = np.random.default_rng(0)
N = 400
LOGITS = RNG.normal(size=(N, 5)) * 3
LOGITS[::3, 4] = np.nan
TRUTH = RNG.integers(0, 4, N)
TRUTH[::2] = np.nanargmax(LOGITS[::2], axis=1)
TARGET = LOGITS[np.arange(N), TRUTH]
SCORE = RNG.normal(size=N) * 2 + 1
RIGHT = (RNG.random(N) < 1 / (1 + np.exp(1 - 0.4 * SCORE))).astype(float)
HALVES = np.where(RNG.random(N) < 0.2, 0.5, RIGHT)
WEIGHTS = np.vstack([np.ones(N), RNG.multinomial(N, np.ones(N) / N, size=5)]).astype(float)


def log_loss(temperature, weights):
    z = np.where(np.isnan(LOGITS), -np.inf, LOGITS) / temperature
    z = z - z.max(axis=1, keepdims=True)
    return -(weights * (z[np.arange(N), TRUTH] - np.log(np.exp(z).sum(axis=1)))).sum()


def test_the_temperature_of_each_resample_is_what_scipy_finds():
    found = temperatures(LOGITS, TARGET, WEIGHTS)
    for one, weights in zip(found, WEIGHTS, strict=True):
        best = minimize_scalar(log_loss, args=(weights,), bounds=(1 / WIDEST, WIDEST), method="bounded", options={"xatol": 1e-9})
        assert one == pytest.approx(best.x, rel=1e-5)


def test_temperatures_have_ends():
    pair = np.column_stack([np.zeros(N), SCORE])
    sure, contrary = (temperatures(pair, side * SCORE, WEIGHTS) for side in (SCORE > 0, SCORE < 0))
    np.testing.assert_allclose(sure, 1 / WIDEST)
    np.testing.assert_allclose(contrary, WIDEST)


def test_probabilities_at_a_temperature_by_hand():
    found = softmax_at_temperatures(np.log([[0.8, 0.2, np.nan]]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(found, [[[0.8, 0.2, np.nan]], [[2 / 3, 1 / 3, np.nan]]])


def test_the_sigmoid_without_prior_correction_is_logistic_regression():
    for fit, weights in zip(sigmoids(SCORE, RIGHT, WEIGHTS, False), WEIGHTS, strict=True):
        model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(SCORE[:, None], RIGHT, sample_weight=weights)
        np.testing.assert_allclose(fit, [model.coef_[0, 0], model.intercept_[0]], rtol=1e-5, atol=1e-6)


def test_the_sigmoid_with_prior_correction_is_scikit_learns_sigmoid_calibration():
    for fit, weights in zip(sigmoids(SCORE, RIGHT, WEIGHTS, True), WEIGHTS, strict=True):
        model = _SigmoidCalibration().fit(SCORE, RIGHT, sample_weight=weights)
        np.testing.assert_allclose(fit, [-model.a_, -model.b_], rtol=1e-5, atol=1e-6)


def test_half_right_answers_count_half():
    """As if each such answer stood there twice with half the weight, right once and wrong once."""
    halves = HALVES == 0.5
    score, right = np.r_[SCORE, SCORE[halves]], np.r_[np.where(halves, 1.0, HALVES), np.zeros(halves.sum())]
    weights = np.r_[np.where(halves, 0.5, 1.0), np.full(halves.sum(), 0.5)][None]
    for prior in (True, False):
        np.testing.assert_allclose(sigmoids(SCORE, HALVES, WEIGHTS[:1], prior), sigmoids(score, right, weights, prior), rtol=1e-8)


def test_where_a_threshold_separates_right_from_wrong_only_the_prior_correction_has_a_fit():
    apart = (SCORE > 1).astype(float)
    assert np.isnan(sigmoids(SCORE, apart, WEIGHTS, False)).all()
    model = _SigmoidCalibration().fit(SCORE, apart)
    np.testing.assert_allclose(sigmoids(SCORE, apart, WEIGHTS[:1], True)[0], [-model.a_, -model.b_], rtol=1e-4)


@pytest.mark.parametrize("falling", [1, -1])
def test_right_and_wrong_that_share_only_the_threshold_have_no_fit(falling):
    score, right = falling * np.array([0.0, 1.0, 2.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    without_one, without_both = np.array([1.0, 1, 1, 0, 1, 1]), np.array([1.0, 1, 0, 0, 1, 1])
    assert np.isnan(sigmoids(score, right, [np.ones(6), without_one, without_both], False)).all()
    assert np.isfinite(sigmoids(score, right, [np.ones(6), without_one, without_both], True)).all()
    overlapping = np.where(score == falling, 1 - right, right)  # one wrong one beyond the threshold is enough
    assert np.isfinite(sigmoids(score, overlapping, np.ones((1, 6)), False)).all()
    halves = np.where(score == 2 * falling, 0.5, right)  # both right and wrong at the threshold, and nowhere else
    assert np.isnan(sigmoids(score, halves, np.ones((1, 6)), False)).all()


def test_each_resample_of_a_separated_sample_that_has_both_classes_has_its_own_fit():
    """Also far from the steep fit of the whole sample, at which Newton's method begins."""
    rng = np.random.default_rng(0)
    few = np.sort(rng.normal(size=10))
    apart = np.repeat([0.0, 1.0], 5)
    weights = rng.multinomial(10, np.full(10, 0.1), size=300).astype(float)
    both = (weights @ apart > 0) & (weights @ (1 - apart) > 0)
    fits = sigmoids(few, apart, weights, True)
    assert (np.isfinite(fits).all(axis=1) == both).all()
    alone = [sigmoids(few, apart, one[None], True)[0] for one in weights[both]]
    np.testing.assert_allclose(fits[both], alone, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("prior", [True, False])
def test_of_one_class_there_is_no_fit(prior):
    for right in (np.ones(N), np.zeros(N)):
        assert np.isnan(sigmoids(SCORE, right, WEIGHTS, prior)).all()


def test_equal_scores_have_the_share_of_right_answers():
    fit = sigmoids(np.full(N, 3.0), RIGHT, WEIGHTS, False)
    np.testing.assert_allclose(fit[:, 0], 0)
    np.testing.assert_allclose(1 / (1 + np.exp(-fit[:, 1])), (WEIGHTS * RIGHT).sum(axis=1) / N)


@pytest.mark.parametrize(
    ("right", "largest"),
    [(RIGHT, 5.0), (1 - RIGHT, 5.0), ((SCORE > 1).astype(float), 5.0), (RIGHT, 0.1), (1 - RIGHT, 0.1)],
    ids=["inside", "below", "separated", "above", "below both"],
)
def test_slopes_between_two_ends(right, largest):
    def loss(x):
        odds = x[0] * SCORE + x[1]
        return (np.logaddexp(0, odds) - right * odds).sum()

    found = sigmoids(SCORE, right, WEIGHTS[:1], False, 1 / 50, largest)[0]
    best = minimize(loss, [0.05, 0.0], method="L-BFGS-B", bounds=[(1 / 50, largest), (-50, 50)], options={"ftol": 1e-14, "gtol": 1e-9})
    assert loss(found) <= best.fun + 1e-6 and found[0] + 1e-12 >= 1 / 50 and found[0] <= largest + 1e-12
    np.testing.assert_allclose(found, best.x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("at_once", [1, 3 * N * 5, 10**9])
def test_however_many_resamples_are_computed_at_once_the_values_are_the_same(monkeypatch, at_once):
    """Fewer numbers than there are answers, those of three resamples, and more than of all."""
    expected = temperatures(LOGITS, TARGET, WEIGHTS), sigmoids(SCORE, RIGHT, WEIGHTS, True)
    monkeypatch.setattr(newton, "MAX_NUMBERS", at_once)
    for found, one in zip((temperatures(LOGITS, TARGET, WEIGHTS), sigmoids(SCORE, RIGHT, WEIGHTS, True)), expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-9)
