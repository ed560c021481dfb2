import itertools

import numpy as np
import pytest

from qualm.runners.plugins.conformal.aps import aps
from qualm.runners.plugins.conformal.raps import raps

RNG = np.random.default_rng(0)
PROBS, U = RNG.dirichlet(np.ones(5), 100), RNG.random(100)


def by_loop(probs, u, penalty, k_reg):
    """The paper's algorithm: options from the likeliest down, with a running sum."""
    scores = np.empty_like(probs)
    for row, order in enumerate(np.argsort(-probs, axis=1)):
        above = 0.0
        for rank, option in enumerate(order, start=1):
            scores[row, option] = above + u[row] * probs[row, option] + penalty * max(rank - k_reg, 0)
            above += probs[row, option]
    return scores


@pytest.mark.parametrize(("penalty", "k_reg"), [(0.0, 0), (0.01, 1), (0.3, 2)])
def test_against_the_papers_running_sums(penalty, k_reg):
    np.testing.assert_allclose(raps(PROBS, U, penalty=penalty, k_reg=k_reg), by_loop(PROBS, U, penalty, k_reg), atol=1e-12)
    whole = raps(PROBS, U, penalty=penalty, k_reg=k_reg, randomised=False)
    np.testing.assert_allclose(whole, by_loop(PROBS, np.ones(100), penalty, k_reg), atol=1e-12)


def test_without_penalty_and_chance_it_is_aps():
    tied = np.array(list(itertools.product([1.0, 2.0], repeat=4)))
    tied /= tied.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(raps(tied, np.full(16, 0.3), penalty=0.0, randomised=False), aps(tied))


def test_a_penalty_keeps_the_largest_sets_smaller_at_the_same_coverage():
    """Of split conformal sets by a loop of its own."""
    rng = np.random.default_rng(1)
    logits = 3 * rng.normal(size=(1500, 60))
    truth = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    flat = np.exp(logits / 2)  # as of a model that is not sure enough
    probs = flat / flat.sum(axis=1, keepdims=True)
    u, fit, sizes = rng.random(1500), np.arange(1500) < 750, {}
    for penalty in (0.0, 0.05):
        scores = raps(probs, u, penalty=penalty, k_reg=2)
        own = np.sort(scores[np.arange(1500), truth][fit])
        inside = scores[~fit] <= own[int(np.ceil(751 * 0.9)) - 1]
        assert inside[np.arange(750), truth[~fit]].mean() == pytest.approx(0.9, abs=0.03)
        sizes[penalty] = inside.sum(axis=1).max()
    assert sizes[0.05] < 0.8 * sizes[0.0]


def test_against_torchcp():
    torchcp = pytest.importorskip("torchcp.classification.score")
    torch = pytest.importorskip("torch")
    score = torchcp.RAPS(penalty=0.05, kreg=1, score_type="identity", randomized=False)
    np.testing.assert_allclose(raps(PROBS, U, penalty=0.05, k_reg=1, randomised=False), score(torch.tensor(PROBS)).numpy(), atol=1e-6)
