import itertools

import numpy as np
import pytest

from qualm.runners.plugins.metrics.prediction_rejection_ratio import prediction_rejection_ratio, why_undefined


def area(u, correct, max_rejection):
    """lm-polygraph's prediction rejection area of one order."""
    rejected = int(max_rejection * len(u))
    return (np.cumsum(correct[np.argsort(u, kind="stable")])[-rejected:] / np.arange(len(u) - rejected + 1, len(u) + 1)).mean()


def by_hand(u, correct, max_rejection):
    """With the random area's own mean; lm-polygraph takes that of 1,000 orders."""
    chance = correct.mean()
    rng = np.random.default_rng(0)
    assert np.mean([area(rng.permutation(len(u)), correct, max_rejection) for _ in range(1000)]) == pytest.approx(chance, abs=0.01)
    return (area(u, correct, max_rejection) - chance) / (area(-correct, correct, max_rejection) - chance)


@pytest.mark.parametrize("max_rejection", [1.0, 0.5, 0.3])
def test_against_lm_polygraphs_definition(max_rejection):
    rng = np.random.default_rng(3)
    correct = rng.integers(0, 3, 25) / 2
    u = rng.permutation(25) - 8.3 * correct
    found = prediction_rejection_ratio(u, correct, np.ones((1, 25)), max_rejection=max_rejection)[0]
    assert found == pytest.approx(by_hand(u, correct, max_rejection))
    assert prediction_rejection_ratio(-u, correct, np.ones((1, 25)), max_rejection=max_rejection, by="confidence")[0] == found


@pytest.mark.parametrize("max_rejection", [1.0, 0.5])
def test_ties_are_the_mean_over_their_orders(max_rejection):
    correct = np.array([1.0, 0, 1, 0])
    areas = [area(np.array([*p, 9]), correct, max_rejection) for p in itertools.permutations(range(3))]
    best = area(-correct, correct, max_rejection)
    expected = (np.mean(areas) - 0.5) / (best - 0.5)
    found = prediction_rejection_ratio(np.array([1.0, 1, 1, 2]), correct, np.ones((1, 4)), max_rejection=max_rejection)[0]
    assert found == pytest.approx(expected)


def test_perfect_reversed_and_of_too_few_rejected():
    correct = np.array([1.0, 1, 0, 1, 0])
    assert prediction_rejection_ratio(-correct, correct, np.ones((1, 5)))[0] == pytest.approx(1)
    assert prediction_rejection_ratio(correct, correct, np.ones((1, 5)))[0] < 0
    assert np.isnan(prediction_rejection_ratio(np.arange(5.0), correct, np.ones((1, 5)), max_rejection=0.1)[0])
    assert "so few" in why_undefined(np.arange(5.0), correct, max_rejection=0.1)
