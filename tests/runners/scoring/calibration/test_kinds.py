from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.scoring.calibration.drawing import HeldDraws
from qualm.runners.scoring.calibration.kinds import KindOfAnswers, Method, log_odds

REF = {"label": "platt", "plugin": "platt", "args": {}}


def test_log_odds_are_finite():
    assert log_odds(np.array([0.25, 0.5])) == pytest.approx(logit([0.25, 0.5]))
    assert np.isfinite(log_odds(np.array([0.0, 1.0]))).all()


def test_both_ends_are_of_methods_that_give_them():
    score, right = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    once = Weights(np.ones((1, 1)), np.zeros(2, dtype=np.int64))
    assert Method.from_ref(REF).ends(score, right, once, score) is None
    ends = Method.from_ref({"label": "venn_abers", "plugin": "venn_abers", "args": {}}).ends(score, right, once, np.array([0.5]))
    np.testing.assert_allclose(ends, [[0.0], [1.0]])


def test_answers_that_are_not_scored_are_drawn_by_their_own_resamples():
    rng = np.random.default_rng(0)
    score, right = rng.normal(size=40), rng.integers(0, 2, 40) * 1.0
    at, held = np.array([-1.0, 0.5]), HeldDraws(np.arange(40) // 2, 6, 3, "d")
    kind = KindOfAnswers(Method.from_ref(REF), np.arange(40), score, right, np.array([1, 2]), at, np.full(2, -1), held)
    none_of_these = Weights(np.zeros((3, 1)), np.zeros(3, dtype=np.int64))
    found = kind.columns(none_of_these, 3, start=2)["confidence"]
    drawn = np.asarray(held.weights(np.arange(40), 3, 2))
    np.testing.assert_allclose(found[:, 1:], Method.from_ref(REF)(score, right, drawn, at))
    assert np.isnan(found[:, 0]).all() and (found[:, 1:] > expit(-20)).all()


NAN = np.nan


class AsTheyAre:
    """A method that leaves probabilities of options as they are."""

    plugin = SimpleNamespace(declares={"OPTIONS": True})

    def __call__(self, score, right, drawn, scores):
        return np.exp(scores)[None]


def test_the_likeliest_option_is_the_answer_where_any_is_known():
    scores = np.log(np.array([[0.2, 0.5, NAN], [NAN, NAN, NAN], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]))
    kind = KindOfAnswers(AsTheyAre(), np.arange(1), scores[:1], np.zeros((1, 3)), np.array([0, 2, 3, 5]), scores, np.array([1, 0, -1, 0]))
    found = kind.columns(Weights(np.ones((1, 1)), np.zeros(6, dtype=np.int64)), 6)
    np.testing.assert_allclose(found["confidence"], [[0.5, NAN, NAN, 0.4, NAN, 0.7]])
    np.testing.assert_allclose(found["predicted"], [[1, NAN, NAN, 0, NAN, 2]])
    np.testing.assert_allclose(found["correct"], [[1, NAN, NAN, NAN, NAN, 0]])


def test_of_options_that_are_equally_likely_but_for_the_last_bits_the_first_is_the_answer():
    scores = np.log(np.array([[0.25, 0.25 + 4e-17, 0.25 + 1e-16, 0.25]]))
    kind = KindOfAnswers(AsTheyAre(), np.arange(1), scores, np.zeros((1, 4)), np.array([0]), scores, np.array([0]))
    found = kind.columns(Weights(np.ones((1, 1)), np.zeros(1, dtype=np.int64)), 1)
    assert kind.probabilities(Weights(np.ones((1, 1)), np.zeros(1, dtype=np.int64))).argmax() != 0
    assert found["predicted"].tolist() == [[0.0]] and found["correct"].tolist() == [[1.0]]
