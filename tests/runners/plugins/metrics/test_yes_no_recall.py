import numpy as np
import pytest
from sklearn.metrics import recall_score

from qualm.runners.plugins.metrics.yes_no_recall import yes_no_recall
from tests.support.checks.yes_no_answers import amber_by_hand, answers, columns


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_against_scikit_learn(positive):
    said, truth = columns(*answers())
    wanted = float(positive == "yes")
    found = yes_no_recall(said, truth, np.ones((1, len(said))), positive=positive)
    np.testing.assert_allclose(found, recall_score(truth == wanted, said == wanted))


def test_ambers_rounding():
    text, truth = answers()
    found = yes_no_recall(*columns(text, truth), np.ones((1, len(text))), positive="no", convention="amber")
    np.testing.assert_allclose(found, amber_by_hand(text, truth, 0)[2] / 100, atol=1e-12)


def test_none_of_the_class_is_undefined_and_ambers_zero():
    said, truth = np.array([1.0, -1.0]), np.array([1.0, 1.0])
    assert np.isnan(yes_no_recall(said, truth, np.ones((1, 2)), positive="no"))
    assert yes_no_recall(said, truth, np.ones((1, 2)), positive="no", convention="amber") == 0
