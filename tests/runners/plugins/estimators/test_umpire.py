import numpy as np
import pytest

from qualm.runners.plugins.estimators.umpire import umpire

EXAMPLE = [np.array([1.0, 0.0]), np.array([3.0, 4.0])], [np.log([0.5]), np.log([0.5, 0.5])]
RNG = np.random.default_rng(4)


def test_worked_example():
    states, logprobs = EXAMPLE
    assert umpire([states], [logprobs])[0] == pytest.approx(0.513428, abs=1e-6)
    assert umpire([states], [logprobs], alpha=0.0)[0] == pytest.approx(np.log(0.64) / 4, abs=1e-6)
    assert umpire([states], [logprobs], length_normalised=True)[0] == pytest.approx(np.log(0.64) / 4 + 0.5, abs=1e-6)


def test_the_formula_by_eigenvalues_of_the_other_gram_matrix():
    states = RNG.normal(size=(6, 20))
    logprobs = [-RNG.random(n) for n in (1, 2, 3, 4, 5, 6)]
    scaled = states / np.sqrt((states**2).sum(1))[:, None]
    values = np.sort(np.linalg.eigvalsh(scaled.T @ scaled))[-6:] + 1e-8
    incoherence = np.mean([1 - np.prod(np.exp(row)) for row in logprobs])
    assert umpire([list(states)], [logprobs])[0] == pytest.approx(np.log(values).sum() / 12 + incoherence, rel=1e-9)
    assert umpire([list(states * 7)], [logprobs])[0] == pytest.approx(umpire([list(states)], [logprobs])[0], rel=1e-12)


def test_draws_that_repeat_another_are_surer():
    one, two = RNG.normal(size=(2, 20))
    same, apart = umpire([[one] * 4, [one, two, one, two]], [[np.zeros(1)] * 4] * 2)
    assert same == pytest.approx((3 * np.log(1e-8) + np.log(4)) / 8, rel=1e-6) and same < apart < 0


def test_edges():
    states, logprobs = EXAMPLE
    assert np.isnan(umpire([[], [np.zeros(2)] * 2, states], [[], logprobs, [np.empty(0), logprobs[0]]])).all()
