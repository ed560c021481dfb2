"""Confidences put on another scale: a known temperature is found again, and scikit-learn finds the same."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from qualm.runners.contracts.abstentions import Answers, rescale_confidence
from qualm.runners.plugins.abstentions.temperature import temperature


def answers(confidence, right):
    n = len(confidence)
    return Answers(np.asarray(confidence, float), np.asarray(right, float), np.zeros(n), np.zeros(n), np.arange(n))


def overconfident(factor, shift=0.0, n=4000):
    """Answers that are right with probability p, and say sigmoid(factor logit(p) + shift)."""
    rng = np.random.default_rng(3)
    p = rng.uniform(0.05, 0.95, n)
    return answers(expit(factor * logit(p) + shift), rng.random(n) < p)


def test_a_known_temperature_is_found_and_no_answer_declines():
    rule = temperature(overconfident(2.0))
    assert rule.temperature == pytest.approx(2.0, rel=0.08) and (rule.threshold, rule.shift, rule.attained) == (0.0, 0.0, True)
    assert temperature(overconfident(0.5)).temperature == pytest.approx(0.5, rel=0.08)


def test_platts_two_numbers_are_those_of_logistic_regression():
    fit = overconfident(2.0, shift=1.0)
    rule = temperature(fit, shift=True)
    model = LogisticRegression(C=1e9).fit(logit(fit.confidence)[:, None], fit.correct > 0)
    assert 1 / rule.temperature == pytest.approx(model.coef_[0, 0], rel=1e-3)
    assert rule.shift == pytest.approx(model.intercept_[0], abs=1e-3)
    alone = LogisticRegression(C=1e9, fit_intercept=False).fit(logit(fit.confidence)[:, None], fit.correct > 0)
    assert 1 / temperature(fit).temperature == pytest.approx(alone.coef_[0, 0], rel=1e-3)


def test_what_it_says_and_what_it_does():
    fit = overconfident(3.0)
    rule = temperature(fit)
    assert rule.statement.startswith(f"Temperature {rule.temperature:.3g}: log-loss ") and "4,000 answers" in rule.statement
    after = fit.rescaled(rule.temperature, rule.shift)
    gap = [abs(a.confidence[a.confidence > 0.9].mean() - a.correct[a.confidence > 0.9].mean()) for a in (fit, after)]
    assert gap[1] < 0.03 < gap[0]
    assert (np.argsort(fit.confidence) == np.argsort(after.confidence)).all()
    assert " and shift " in temperature(fit, shift=True).statement


def test_the_log_loss_that_it_says_by_hand():
    """Half right counts as right; a confidence of 1 is left out, since no temperature moves it."""
    fit = answers([0.9, 0.8, 0.6, 0.7, 1.0], [1, 0, 0.5, 0, 0])
    before = -np.log([0.9, 0.2, 0.6, 0.3]).mean()
    statement = temperature(fit).statement
    assert f": log-loss {before:.3f} to " in statement and "on the 4 answers it was chosen on" in statement


@pytest.mark.parametrize("fit", [answers([], []), answers([0.5, 0.9], [1, 1]), answers([0.0, 1.0], [0, 1])], ids=["none", "right", "sure"])
def test_nothing_to_choose_on_leaves_confidences_as_they_are(fit):
    rule = temperature(fit)
    assert (rule.attained, rule.temperature, rule.shift, rule.threshold) == (False, 1.0, 0.0, 0.0)


def test_scales_by_hand():
    """.8 is log odds ln 4: halved, ln 2, which is 2/3; 1 more, e * 4 / (1 + e * 4)."""
    p = np.array([0.8, 0.5, 0.0, 1.0, np.nan])
    np.testing.assert_allclose(rescale_confidence(p, 2.0, 0.0), [2 / 3, 0.5, 0, 1, np.nan])
    np.testing.assert_allclose(rescale_confidence(p, 1.0, 1.0)[:2], [4 * np.e / (1 + 4 * np.e), np.e / (1 + np.e)])
    assert rescale_confidence(p, 1.0, 0.0)[0] == 0.8
