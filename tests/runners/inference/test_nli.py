from collections import Counter

import numpy as np
import pytest
from scipy.special import softmax

from qualm.runners.contracts.nli import NliContext, NliError
from qualm.runners.inference.nli import CONTRADICTS, FOLLOWS, CachedNli, pair_key, probabilities
from qualm.runners.runtime.settings import Settings


class Engine:
    name, classes = "the model", 3

    def __init__(self, identity="i"):
        self.identity, self.asked = identity, []

    def infer(self, pairs):
        self.asked += pairs
        for place, (a, b) in reversed(list(enumerate(pairs))):
            yield [(place, (float(len(a)), float(len(b)), 0.0))]


def nli(cache, identity="i"):
    return CachedNli(Engine(identity), NliContext(Settings(progress=False), Counter()), cache)


def test_each_different_pair_is_inferred_once_and_found_again(tmp_path):
    model = nli(tmp_path)
    assert model.logits([("a", "bb"), ("bb", "a"), ("a", "bb")]).tolist() == [[1, 2, 0], [2, 1, 0], [1, 2, 0]]
    assert model.engine.asked == [("a", "bb"), ("bb", "a")]
    assert model.counters == {
        "nli pairs": 3, "nli pairs same as another": 1, "nli pairs decided by rule": 0, "nli pairs stored": 0, "nli pairs computed": 2,
    }  # fmt: skip
    again = nli(tmp_path)
    assert again.logits([("bb", "a"), ("c", "dd")]).tolist() == [[2, 1, 0], [1, 2, 0]]
    assert again.engine.asked == [("c", "dd")] and again.counters["nli pairs stored"] == 1


def test_equal_and_empty_texts_are_told_by_rule(tmp_path):
    model = nli(tmp_path)
    told = model.logits([(" a", "a "), ("", " "), ("a", ""), (" ", "a")])
    assert told.tolist() == [list(FOLLOWS), list(FOLLOWS), list(CONTRADICTS), list(CONTRADICTS)]
    assert model.engine.asked == [] and model.counters["nli pairs decided by rule"] == 4


def test_a_nameless_engine_is_asked_every_time(tmp_path):
    for _ in range(2):
        model = nli(tmp_path, identity="")
        assert model.logits([("a", "b")]).tolist() == [[1, 1, 0]] and model.engine.asked == [("a", "b")]
    assert not list(tmp_path.iterdir())


def test_inferences_that_cannot_be_kept_are_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NliError, match="the model: 1 inferences cannot be kept in"):
        nli(tmp_path / "file").logits([("a", "b")])


def test_probabilities_are_the_softmax():
    logits = np.array([[[1.0, 2, 3], [1000.0, 0, -1000]]])
    np.testing.assert_allclose(probabilities(logits), softmax(logits, axis=-1))


def test_no_two_pairs_are_spelt_alike():
    keys = [pair_key(*pair) for pair in (("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"), ("1 a", "b"), ("é", "b"), ("\ud800", "b"))]
    assert len(set(keys)) == len(keys) and all(len(key) == 16 for key in keys)
