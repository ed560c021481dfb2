import numpy as np
import pytest

from qualm.runners.plugins.conformal.top_k import top_k


def test_by_hand():
    probs = np.array([[0.5, 0.2, 0.3, np.nan], [0.4, 0.4, 0.1, 0.1]])
    np.testing.assert_array_equal(top_k(probs), [[1, 3, 2, np.nan], [2, 2, 4, 4]])


def test_against_mapie():
    sets = pytest.importorskip("mapie.conformity_scores.sets.topk", reason="mapie, a peer to compare with")
    probs = np.random.default_rng(1).dirichlet(np.ones(5), 40)
    truth = np.random.default_rng(2).integers(0, 5, 40)
    score = sets.TopKConformityScore()
    score.classes = np.arange(5)
    theirs = score.get_conformity_scores(truth, probs, y_enc=truth).ravel()
    np.testing.assert_array_equal(top_k(probs)[np.arange(40), truth], theirs + 1)
