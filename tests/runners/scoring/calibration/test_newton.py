"""Newton's method of many losses at once: against scipy.optimize, from where its full steps alone would go astray."""

import numpy as np
import pytest
from scipy.optimize import minimize

from qualm.runners.scoring.calibration.newton import SEPARATED, find_minimum, is_separated

GOALS = np.array([[3.0, -1.0], [0.5, 0.5], [-1.5, 2.0]])
"""The losses sum(log cosh(fit - goal)) are least there; a full step from further than about 1.1 away goes further away still."""


def move(fit):
    away = fit - GOALS
    return np.sinh(2 * away) / 2  # slope over curve: tanh / (1 / cosh²)


def loss(fit):
    return (np.logaddexp(fit - GOALS, GOALS - fit) - np.log(2)).sum(axis=1)


def test_steps_that_overshoot_are_halved():
    fit, at = find_minimum(np.full((3, 2), 4.0), move, loss)
    np.testing.assert_allclose(fit, GOALS, atol=1e-6)
    np.testing.assert_allclose(at, 0, atol=1e-10)
    assert not is_separated(fit).any()


@pytest.mark.parametrize("start", [-2.0, 0.0, 3.0])
def test_of_a_loss_without_a_closed_form_it_is_what_scipy_finds(start):
    weights = np.array([1.0, 2.5, 0.3])

    def each(fit):
        return weights * np.exp(fit[:, 0]) - 2 * fit[:, 0] + 0.1 * fit[:, 0] ** 4

    def newton(fit):
        x = fit[:, 0]
        return ((weights * np.exp(x) - 2 + 0.4 * x**3) / (weights * np.exp(x) + 1.2 * x**2))[:, None]

    fit, at = find_minimum(np.full((3, 1), start), newton, each)
    for row, weight in enumerate(weights):
        best = minimize(lambda x, w=weight: w * np.exp(x[0]) - 2 * x[0] + 0.1 * x[0] ** 4, [0.0], tol=1e-12)
        assert fit[row, 0] == pytest.approx(best.x[0], abs=1e-5) and at[row] == pytest.approx(best.fun, abs=1e-9)


def test_the_start_is_left_as_it_was():
    start = np.zeros((3, 2))
    find_minimum(start, move, loss)
    assert not start.any()


def test_what_falls_for_ever_is_named():
    fit, _ = find_minimum(np.zeros((2, 1)), lambda fit: np.full_like(fit, -1e3), lambda fit: -fit[:, 0])
    assert is_separated(fit).all() and (fit > SEPARATED).all()
    np.testing.assert_array_equal(is_separated(np.array([[0.0, -2e4], [9e3, 1.0]])), [True, False])
