import numpy as np
import pytest

from qualm.runners.plugins.conformal.top_k import top_k


def test_by_hand():
    probs = np.array([[0.5, 0.2, 0.3, np.nan], [0.4, 0.4, 0.1, 0.1]])
    np.testing.assert_array_equal(top_k(probs), [[1, 3, 2, np.nan], [2, 2, 4, 4]])


def test_the_sets_of_a_split_are_the_k_likeliest_and_cover():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(4000, 6))
    truth = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    scores, fit = top_k(probs), np.arange(4000) < 2000
    threshold = np.sort(scores[fit][np.arange(2000), truth[fit]])[int(np.ceil(2001 * 0.9)) - 1]
    inside = scores[~fit] <= threshold
    assert (inside.sum(axis=1) == threshold).all()
    assert inside[np.arange(2000), truth[~fit]].mean() >= 0.88


def test_against_mapie():
    sets = pytest.importorskip("mapie.conformity_scores.sets.topk", reason="mapie, a peer to compare with")
    probs = np.random.default_rng(1).dirichlet(np.ones(5), 40)
    truth = np.random.default_rng(2).integers(0, 5, 40)
    score = sets.TopKConformityScore()
    score.classes = np.arange(5)
    theirs = score.get_conformity_scores(truth, probs, y_enc=truth).ravel()
    np.testing.assert_array_equal(top_k(probs)[np.arange(40), truth], theirs + 1)
