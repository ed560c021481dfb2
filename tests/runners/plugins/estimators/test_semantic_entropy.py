import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns, signals
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.plugins.estimators._meanings import clusters
from qualm.runners.plugins.estimators.semantic_entropy import entropy, semantic_entropy
from qualm.runners.runtime.settings import Settings
from tests.support.models.tiny_nli import Answered, Told

CONTEXT = EstimatorContext(Settings(progress=False))
VERSIONS = {"sum": 1.132052, "frequency": 1.039721, "kuhn": 1.339128, "uq_nlg": 1.098612, "normalised": 0.897946}


@pytest.mark.parametrize(("version", "expected"), VERSIONS.items())
def test_worked_examples(version, expected):
    logprobs = [np.log([p]) for p in (0.4, 0.2, 0.1, 0.3)]
    assert entropy(np.array([0, 0, 1, 2]), logprobs, version) == pytest.approx(expected, abs=1e-6)
    texts = [["a red cube", "Red cube!", "blue", "no"]]
    assert semantic_entropy(CONTEXT, texts, [logprobs], None, version=version)[0] == pytest.approx(expected, abs=1e-6)


def test_length_counts_by_version():
    logprobs = [np.array([-1.0, -3.0]), np.array([-2.0])]
    assert entropy(np.array([0, 1]), logprobs, "kuhn") == pytest.approx(2.0)
    assert entropy(np.array([0, 1]), logprobs, "sum") == pytest.approx(3.0)


def test_unique_counts_equal_texts_once():
    logprobs = [np.log([p]) for p in (0.5, 0.5, 0.25, 0.5)]
    texts = [["red", "red", "blue", "red"]]
    assert semantic_entropy(CONTEXT, texts, [logprobs], None, unique=True)[0] == pytest.approx(-np.mean(np.log([0.5, 0.25])))
    plain = semantic_entropy(CONTEXT, texts, [logprobs], None)[0]
    assert plain == pytest.approx(-(3 * np.log(1.5) + np.log(0.25)) / 4)
    later = [logprobs[0], np.log([0.1]), logprobs[2], np.log([0.2])]  # the same text, written in other tokens
    assert semantic_entropy(CONTEXT, texts, [later], None, unique=True)[0] == pytest.approx(-np.mean(np.log([0.5, 0.25])))


@pytest.mark.parametrize(("compared", "before"), [("with_question", "Q? "), ("answers", "")])
def test_the_question_stands_before_both_where_that_is_asked_for(compared, before):
    told = Told({(before + a, before + b): (9.0, 0.0, -9.0) for a, b in ("ab", "ba")})
    value = semantic_entropy(Answered(told), [["a", "b"]], None, ["Q?"], version="frequency", compared=compared)[0]
    assert value == 0 and set(told.asked) == set(told.known)


def test_edges():
    texts = [["red", "red"], ["red", "blue"], ["", ""], ["", "red"]]
    logprobs = [[np.zeros(1)] * 2, [np.array([-np.inf]), np.array([-1.0])], [np.empty(0), np.zeros(1)], [np.zeros(1)] * 2]
    np.testing.assert_allclose(semantic_entropy(CONTEXT, texts, None, None, version="frequency"), [0, np.log(2), 0, np.log(2)])
    for version in ("sum", "kuhn", "uq_nlg", "normalised"):
        found = semantic_entropy(CONTEXT, texts, logprobs, None, version=version)
        assert np.isnan(found[2]), version
        assert not np.isnan(found[[0, 1, 3]]).any(), version
    assert semantic_entropy(CONTEXT, texts, logprobs, None, version="normalised")[1] == 0.0
    assert semantic_entropy(CONTEXT, texts, logprobs, None)[1] == np.inf


def one_after_the_other(told, texts, before=""):
    """Greedy clusters as the definition reads."""
    heads, labels = [], []
    for text in texts:
        for number, head in enumerate(heads):
            pair = (before + head, before + text)
            if head == text or (told.known[pair][0] > 0 and told.known[pair[::-1]][0] > 0):
                labels.append(number)
                break
        else:
            labels.append(len(heads))
            heads.append(text)
    return labels


def test_clusters_are_those_of_the_plain_loop():
    rng = np.random.default_rng(1)
    words = list("abcdefgh")
    for before in ("", "Q? "):
        known = {(before + a, before + b): (rng.choice([1, -1], p=[0.7, 0.3]), 0.0, 0.0) for a in words for b in words}
        told = Told(known)
        rows = [list(rng.choice(words, 10)) for _ in range(50)]
        found = clusters(told, rows, ["Q?"] * 50 if before else None)
        for row, labels in zip(rows, found, strict=True):
            assert labels.tolist() == one_after_the_other(told, row, before)
        assert not any(a == b for a, b in told.asked)


def test_no_pair_is_asked_that_the_definition_does_not_need():
    told = Told({(a, b): (1.0, 0.0, 0.0) for a in "abcd" for b in "abcd"})
    clusters(told, [list("abcdabcd")])
    assert sorted(told.asked) == sorted([("a", x) for x in "bcd"] + [(x, "a") for x in "bcd"])
    told = Told({(a, b): (-1.0, 0.0, 0.0) for a in "abcd" for b in "abcd"})
    clusters(told, [list("abcd")])
    assert len(told.asked) == 3 + 2 + 1  # nothing entails, so nothing is asked the other way round


def test_looser_meaning():
    """Neutral both ways: apart by entailment, together where nothing contradicts."""
    told = Told({pair: (0.0, 1.0, -1.0) for pair in (("a", "b"), ("b", "a"))})
    assert clusters(told, [["a", "b"]])[0].tolist() == [0, 1]
    assert clusters(told, [["a", "b"]], same="no_contradiction")[0].tolist() == [0, 0]


def test_empty_answers_are_one_meaning_of_their_own():
    from qualm.runners.contracts.nli import NliContext
    from qualm.runners.inference.nli import open_nli

    nli = open_nli("lexical", NliContext(Settings(progress=False)))
    for questions in (None, ["What color is it?"]):
        for same in ("entailment", "no_contradiction"):
            assert clusters(nli, [["", "red", " ", "red"]], questions, same)[0].tolist() == [0, 1, 0, 1]


def test_what_it_reads_follows_from_its_arguments():
    plugin = registry.get("estimators", "semantic_entropy")
    read = columns(plugin, {"version": "frequency", "compared": "answers"})
    assert read == {"draw_texts": "draw_texts", "draw_logprobs": None, "question": None}
    assert signals(c for c in read.values() if c) == {"draws", "text"}
    read = columns(plugin, {"version": "sum", "compared": "with_question"})
    assert list(read.values()) == ["draw_texts", "draw_logprobs", "question"]
    assert signals(filter(None, read.values())) == {"draws", "text", "token_logprobs"}
