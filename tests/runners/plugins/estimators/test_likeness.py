import numpy as np
import pytest

from qualm.runners.inference.nli import probabilities
from qualm.runners.plugins.estimators._likeness import index_texts, infer_all_pairs, jaccard, likeness, spectrum


class Nli:
    """Logits that tell premise from hypothesis; notes what it is asked."""

    def logits(self, pairs):
        self.pairs = list(pairs)
        return np.array([[ord(a[0]), ord(b[0]), 0.0] for a, b in pairs]).reshape(-1, 3) / 100


class Context:
    def __init__(self):
        self.model = Nli()

    def nli(self, chosen, reads="contradiction"):
        return self.model


def test_each_draw_is_premise_to_each_other_and_different_texts_are_asked_once():
    nli = Nli()
    first, second = infer_all_pairs(nli, [["b", "a", "b"], ["c"]])
    assert nli.pairs == [("b", "b"), ("b", "a"), ("a", "b"), ("a", "a"), ("c", "c")]
    assert (
        (first[1, 2] * 100).tolist() == pytest.approx([97, 98, 0]) and (first[0] == first[2]).all() and (first[:, 0] == first[:, 2]).all()
    )
    assert first.shape == (3, 3, 3) and second.shape == (1, 1, 3)


def test_likeness_is_entailment_or_the_lack_of_a_contradiction():
    context, texts = Context(), [["b", "a"]]
    chances = probabilities(infer_all_pairs(context.model, texts)[0])
    np.testing.assert_allclose(likeness(context, texts, "entailment", "x")[0], chances[..., 0])
    np.testing.assert_allclose(likeness(context, texts, "contradiction", "x")[0], 1 - chances[..., 2])
    assert likeness(None, [["Red cube", "red ball", ""]], "jaccard", None)[0].tolist() == [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]]


def test_places():
    assert index_texts(["b", "a", "b"], ["a", "b"]).tolist() == [1, 0, 1] and index_texts([], []).tolist() == []


def test_jaccard_is_symmetric_and_one_with_itself():
    matrix = jaccard(["", " ", "a", "b a", "a b b", "ab"])
    assert (matrix == matrix.T).all() and (np.diag(matrix) == 1).all() and (matrix >= 0).all() and (matrix <= 1).all()


def test_the_spectrum_has_a_zero_for_every_group_and_eigenvectors_in_columns():
    blocks = np.kron(np.eye(3), np.ones((2, 2)))
    values, vectors = spectrum(blocks)
    np.testing.assert_allclose(values, [0, 0, 0, 1, 1, 1], atol=1e-12)
    skew = np.array([[1.0, 0.2], [0.6, 1.0]])
    values, vectors = spectrum(skew)
    weights = np.array([[1.0, 0.4], [0.4, 1.0]])
    laplacian = np.eye(2) - weights / 1.4
    np.testing.assert_allclose(laplacian @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(values, [0, 4 / 7], atol=1e-12)
