from collections import Counter

import numpy as np
import pytest

from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators.sar import sar
from qualm.runners.plugins.estimators.sentence_sar import sentence_sar
from qualm.runners.runtime.settings import Settings


def context():
    return EstimatorContext(Settings(progress=False), Counter())


def test_worked_example_and_sentence_sar():
    texts, probabilities = [["red", "red", "blue"]], [0.4, 0.2, 0.1]
    words = [[np.log([p, 0.5]) for p in probabilities]]  # the end of sequence weighs nothing
    ends = [[np.array([len(t), len(t)]) for t in texts[0]]]
    (value,) = sar(context(), texts, words, ends)
    assert value == pytest.approx(-2.996565, abs=1e-6)
    assert value == pytest.approx(sentence_sar(context(), texts, [[np.log([p]) for p in probabilities]])[0])


def test_it_is_lm_polygraphs_with_another_likeness():
    texts = ["red cube", "a red cube", "cube"]
    logprobs = [np.log([0.5, 0.4]), np.log([0.9, 0.6, 0.7]), np.log([0.3])]
    ends = [np.array([3, 8]), np.array([1, 5, 10]), np.array([4])]
    without = [np.array([1 / 2, 1 / 2]), np.array([2 / 3] * 3), np.array([0.0])]
    alike = np.array([[1, 2 / 3, 1 / 2], [2 / 3, 1, 1 / 3], [1 / 2, 1 / 3, 1]])
    token = np.array([(-own * (1 - g) / (1 - g).sum()).sum() for own, g in zip(logprobs, without, strict=True)])
    probabilities = np.exp(-token)
    others = (probabilities * alike * (1 - np.eye(3))).sum(-1) / 0.001
    expected = -np.log(others + probabilities).mean()
    assert sar(context(), [texts], [logprobs], [ends], similarity="jaccard")[0] == pytest.approx(expected, abs=1e-9)


def test_undefined_with_a_draw_that_says_nothing():
    silent = sar(context(), [["red", ""]], [[np.log([0.5]), np.log([0.5])]], [[np.array([3]), np.array([0])]])
    assert np.isnan(silent[0])
