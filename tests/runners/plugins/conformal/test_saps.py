import numpy as np
import pytest

from qualm.runners.plugins.conformal.saps import saps

RNG = np.random.default_rng(0)
PROBS, U = RNG.dirichlet(np.ones(5), 100), RNG.random(100)


def by_loop(probs, u, weight):
    """The paper's equation 8, option by option."""
    scores = np.empty_like(probs)
    for row, order in enumerate(np.argsort(-probs, axis=1)):
        for rank, option in enumerate(order, start=1):
            scores[row, option] = u[row] * probs[row].max() if rank == 1 else probs[row].max() + (rank - 2 + u[row]) * weight
    return scores


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.65])
def test_against_the_papers_equation(weight):
    np.testing.assert_allclose(saps(PROBS, U, weight=weight), by_loop(PROBS, U, weight))


def test_by_hand_with_a_tie_and_fewer_options():
    probs = np.array([[0.5, 0.2, 0.3, np.nan], [0.4, 0.4, 0.2, np.nan]])
    expected = [[0.25, 0.65, 0.55, np.nan], [0.45, 0.45, 0.55, np.nan]]
    np.testing.assert_allclose(saps(probs, np.array([0.5, 0.5])), expected)


def test_against_torchcp():
    torchcp = pytest.importorskip("torchcp.classification.score")
    torch = pytest.importorskip("torch")
    score = torchcp.SAPS(weight=0.2, score_type="identity", randomized=False)
    np.testing.assert_allclose(saps(PROBS, np.ones(100), weight=0.2), score(torch.tensor(PROBS)).numpy(), atol=1e-6)
