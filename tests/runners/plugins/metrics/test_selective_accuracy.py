import itertools

import numpy as np
import pytest

from qualm.runners.plugins.metrics.selective_accuracy import selective_accuracy

U, CORRECT = np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([1.0, 1, 0, 1, 0])


@pytest.mark.parametrize(("coverage", "expected"), [(0.2, 1), (0.4, 1), (0.41, 2 / 3), (0.6, 2 / 3), (0.8, 0.75), (1.0, 0.6)])
def test_by_hand(coverage, expected):
    assert selective_accuracy(U, CORRECT, np.ones((1, 5)), coverage=coverage)[0] == pytest.approx(expected)
    assert selective_accuracy(-U, CORRECT, np.ones((1, 5)), coverage=coverage, by="confidence")[0] == pytest.approx(expected)


def test_a_cut_within_a_tie_is_the_mean_over_its_orders():
    correct = np.array([1.0, 1, 0, 0, 1])
    orders = [correct[[0, *p]][:3].mean() for p in itertools.permutations(range(1, 5))]
    found = selective_accuracy(np.array([0.0, 1, 1, 1, 1]), correct, np.ones((1, 5)), coverage=0.6)[0]
    assert found == pytest.approx(np.mean(orders))
