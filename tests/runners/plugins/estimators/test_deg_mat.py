import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.deg_mat import deg_mat, degree
from qualm.runners.runtime.settings import Settings

CONTEXT = EstimatorContext(Settings(progress=False))


def test_worked_examples():
    first = np.array([[1, 0.9, 0.2, 0.9], [0.8, 1, 0.1, 0.8], [0.3, 0.2, 1, 0.3], [0.9, 0.9, 0.2, 1]])
    assert degree(first) == pytest.approx(0.343750, abs=1e-8)
    assert degree(np.array([[1, 0.9, 0.2], [0.8, 1, 0.1], [0.3, 0.2, 1]])) == pytest.approx(0.38888889, abs=1e-8)
    contradiction = np.array([[0, 0.05, 0.6], [0.1, 0, 0.7], [0.5, 0.6, 0]])
    assert degree(1 - contradiction) == pytest.approx(0.28333333, abs=1e-8)


def test_jaccard():
    texts = [["a red car", "a red truck", "blue car", "a red car"], ["a red car", "a red car", "the red cars", "a blue truck"]]
    np.testing.assert_allclose(deg_mat(CONTEXT, texts, similarity="jaccard"), [0.4375, 0.525])


def test_by_words():
    texts = ["red cube", "a red cube", "the big red cube", "blue"]
    entailed = 4 + 2 + 2  # each itself, the first two each other, and both follow from the third
    not_contradicted = 1 + 9  # the last is unlike the rest, and these contradict nothing among themselves
    assert deg_mat(CONTEXT, [texts])[0] == pytest.approx(1 - entailed / 16)
    assert deg_mat(CONTEXT, [texts], similarity="contradiction")[0] == pytest.approx(1 - not_contradicted / 16)


def test_edges():
    for similarity in ("entailment", "contradiction", "jaccard"):
        found = deg_mat(CONTEXT, [["red"], [], ["red", "red"], ["", ""], ["", "red"]], similarity=similarity)
        np.testing.assert_allclose(found, [np.nan, np.nan, 0.0, 0.0, 0.5])
