import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece_classwise import ece_classwise
from qualm.runners.scoring.bootstrap import Bootstrap

N, K = 80, 4
RNG = np.random.default_rng(0)
PROBS, RIGHT = RNG.dirichlet(np.ones(K), N), RNG.integers(0, K, N) * 1.0


def by_loop(probs, right, n_options, bins):
    errors = []
    for k in range(int(n_options.max())):
        rows = n_options > k
        p, y = probs[rows, k], right[rows] == k
        place = np.minimum((p * bins).astype(int), bins - 1)
        errors.append(sum((place == b).mean() * abs(y[place == b].mean() - p[place == b].mean()) for b in set(place.tolist())))
    return np.mean(errors)


def test_against_a_loop_in_every_resample():
    (weights,) = Bootstrap(np.arange(N) // 2, 6, 1).blocks()
    found = ece_classwise(PROBS, RIGHT, np.full(N, 4.0), np.zeros(N), weights, bins=5)
    for value, row in zip(found, np.asarray(weights).astype(int), strict=True):
        drawn = np.repeat(np.arange(N), row)
        assert value == pytest.approx(by_loop(PROBS[drawn], RIGHT[drawn], np.full(len(drawn), 4), 5))


def test_options_that_a_question_has_not_do_not_count():
    probs, right, n_options = PROBS.copy(), RIGHT.copy(), np.full(N, 4.0)
    probs[:30, 2:], n_options[:30] = 0, 2
    probs[:30] /= probs[:30].sum(axis=1, keepdims=True)
    right[:30] %= 2
    found = ece_classwise(probs, right, n_options, np.zeros(N), np.ones((1, N)), bins=5)[0]
    assert found == pytest.approx(by_loop(probs, right, n_options, 5))
