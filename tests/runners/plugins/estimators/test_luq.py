import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.luq import luq, sentences
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Told

CONTEXT = EstimatorContext(Settings(progress=False))


def of_matrices(e, c, texts):
    context = EstimatorContext(Settings(progress=False))
    told = Told({(a, b): (e[i][j], 0.0, c[i][j]) for i, a in enumerate(texts) for j, b in enumerate(texts)})
    context._opened['"told"'] = told
    return context, told


def test_worked_examples():
    texts = ["one", "two", "three"]
    e = np.array([[3, 2, -1], [2, 3, -1.5], [-1, -2, 3]])
    context, _ = of_matrices(e.T, -e.T, texts)
    assert luq(context, [texts], nli="told")[0] == pytest.approx(0.622026, abs=1e-6)
    e = np.array([[3, 2, -1], [1.5, 3, -2], [-0.5, -1, 3]])
    c = np.array([[-3, -2, 1], [-1, -3, 2], [0.5, 1, -3]])
    context, _ = of_matrices(e, c, texts)
    assert luq(context, [texts], nli="told", units="whole")[0] == pytest.approx(0.59475182, abs=1e-8)


def test_sentences_follow_from_whole_answers():
    context = EstimatorContext(Settings(progress=False))
    known = {("A. B!", "C."): (0, 0, 0), ("C.", "A."): (2, 0, 0), ("C.", "B!"): (0, 0, 2)}
    told = context._opened['"told"'] = Told(known)
    supported = 1 / (1 + np.exp([-2.0, 2.0]))
    assert luq(context, [["A. B!", "C."]], nli="told")[0] == pytest.approx(1 - np.mean([supported.mean(), 0.5]))
    assert set(told.asked) == set(known)


def test_edges():
    found = luq(CONTEXT, [["red", "red", ""], ["red", "", " "], [], ["red", "blue"], ["red. blue.", "red."]])
    np.testing.assert_allclose(found, [0.0, np.nan, np.nan, 1.0, 1 - (np.mean([1, 0]) + 1) / 2], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A car. It is 2.5 m long!  Red?", ["A car.", "It is 2.5 m long!", "Red?"]),
        ('He said "no." Then left.', ['He said "no."', "Then left."]),
        ("红色。是的！「好。」然后", ["红色。", "是的！", "「好。」", "然后"]),
        ("red", ["red"]),
        (" \n ", []),
        ("...", ["..."]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected
