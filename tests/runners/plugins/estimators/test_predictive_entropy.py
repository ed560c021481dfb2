import numpy as np
import pytest

from qualm.runners.plugins.estimators.predictive_entropy import predictive_entropy

DRAWS = [np.log([0.4]), np.log([0.5, 0.2]), np.log([0.1])]


@pytest.mark.parametrize(("per", "expected"), [("answer", 1.840486), ("token", 1.456723)])
def test_worked_example(per, expected):
    """-(ln .4 + ln .1 + ln .1) / 3, and with the mean of the second draw's tokens, ln sqrt(.1)."""
    by_hand = -np.log([0.4, 0.1 if per == "answer" else 0.1**0.5, 0.1]).mean()
    assert predictive_entropy([DRAWS], per=per)[0] == pytest.approx(by_hand) == pytest.approx(expected, abs=1e-6)


def test_it_estimates_the_entropy_of_what_is_drawn():
    rng, p = np.random.default_rng(0), np.array([0.6, 0.3, 0.1])
    draws = [[np.log(p[[k]]) for k in rng.choice(3, 4000, p=p)]]
    assert predictive_entropy(draws)[0] == pytest.approx(-(p * np.log(p)).sum(), abs=0.03)


def test_value_of_lm_polygraph():
    """`MonteCarloSequenceEntropy` of these probabilities, and `MonteCarloNormalizedSequenceEntropy`: the mean over draws."""
    rows = [np.array([-0.1, -0.4]), np.array([-1.2])]
    np.testing.assert_allclose(predictive_entropy([rows]), -np.mean([-0.5, -1.2]))
    np.testing.assert_allclose(predictive_entropy([rows], per="token"), -np.mean([-0.25, -1.2]))


@pytest.mark.parametrize("per", ["answer", "token"])
def test_edges(per):
    values = predictive_entropy([[], [np.empty(0), DRAWS[0]], [np.zeros(1)], [np.array([-np.inf])]], per=per)
    np.testing.assert_array_equal(values, [np.nan, np.nan, 0.0, np.inf])
