import itertools

import numpy as np
import pytest

from qualm.runners.plugins.metrics.auarc import auarc

U = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
ACC = np.array([1.0, 1, 0, 1, 0])
ONE = np.ones((1, 5))


def by_hand(uncertainty, correct, form):
    order = np.argsort(uncertainty, kind="stable")
    curve = np.cumsum(correct[order]) / np.arange(1, len(order) + 1)
    return np.trapezoid(curve, np.linspace(0, 1, len(curve))) if form == "trapezoid" else curve.mean()


def test_worked_example():
    assert auarc(U, ACC, ONE)[0] == pytest.approx(0.804167, abs=1e-6)
    assert auarc(U, ACC, ONE, form="rectangle")[0] == pytest.approx(0.803333, abs=1e-6)
    assert auarc(-ACC, ACC, ONE)[0] == pytest.approx(0.8875)


def test_value_of_lm_polygraph():
    """Its PredictionRejectionArea."""
    u, correct = np.array([0.1, 0.9, 0.4, 0.3, 0.8, 0.2]), np.array([1.0, 0, 1, 0, 1, 1])
    assert auarc(u, correct, np.ones((1, 6)), form="rectangle")[0] == pytest.approx(0.81388889, abs=1e-8)


@pytest.mark.parametrize("form", ["trapezoid", "rectangle"])
def test_ties_are_the_mean_over_their_orders(form):
    u, acc = np.array([1.0, 1, 1, 2]), np.array([1.0, 0, 1, 1])
    orders = [by_hand(np.arange(4), acc[[*list(p), 3]], form) for p in itertools.permutations(range(3))]
    assert auarc(u, acc, np.ones((1, 4)), form=form)[0] == pytest.approx(np.mean(orders))
    assert auarc(np.zeros(4), np.array([1.0, 0, 1, 1]), np.ones((1, 4)), form=form)[0] == pytest.approx(0.75)


def test_edges():
    assert np.isnan(auarc(U[:1], ACC[:1], np.ones((1, 1)))[0])
    assert auarc(U[:1], ACC[:1], np.ones((1, 1)), form="rectangle")[0] == 1
    with pytest.raises(ValueError, match="counts"):
        auarc(U, ACC, ONE / 2)
