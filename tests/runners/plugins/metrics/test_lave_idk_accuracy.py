import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.plugins.metrics.lave_idk_accuracy import lave_idk_accuracy


def test_both_one_or_neither_declines():
    pred, gt = np.array([1.0, 1, 0, 0, 0]), np.array([1.0, 0, 1, 0, 0])
    rating = np.array([1.0, 0, 0, 0.5, 1])
    assert lave_idk_accuracy(rating, pred, gt, np.ones((1, 5)))[0] == pytest.approx((1 + 0 + 0 + 0.5 + 1) / 5)


def test_what_a_judge_says_of_a_refused_answer_does_not_count():
    one = np.ones((1, 2))
    assert lave_idk_accuracy(np.array([0.5, 1.0]), np.array([1.0, 1]), np.array([1.0, 0]), one)[0] == 0.5


@pytest.mark.parametrize("judge", ["rules", "vqa"])
def test_judges_rate_exactly_so(judge):
    answers = ["I don't know", "I don't know", "red", "red"]
    references = [[], ["red", "red", "red", "red"], [], ["red", "red", "red", "red"]]
    found = registry.load("judges", judge)(["?"] * 4, references, answers)
    rating, pred = np.array([float(j.rating) for j in found]), np.array([float(j.pred_is_idk) for j in found])
    gt = np.array([1.0, 0, 1, 0])
    np.testing.assert_array_equal(rating, [1, 0, 0, 1])
    assert lave_idk_accuracy(rating, pred, gt, np.ones((1, 4)))[0] == rating.mean()
