"""lighteval's details, row by row."""

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.lighteval import names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from tests.support.data.recordings import lighteval, lighteval_row, png

LETTERED = "What is it?\nA. a cat\nB. a dog\nAnswer:"
ANY = ReadOptions()


def one(tmp_path, *args, how=ANY, **more):
    (found,) = read(lighteval(tmp_path, lighteval_row(*args, **more)), how)
    return found


def test_runs_and_tasks(tmp_path):
    path = lighteval(tmp_path, lighteval_row("0", "?", ["a"], 0, ["a"]))
    date = "2026-03-01T10-11-12.345678"
    assert names(path) == {(run, task) for run in (date, "model", "org/model") for task in ("capitals|0", "capitals")}
    assert [part.format for part in find_parts(tmp_path)] == ["lighteval"]
    assert names(tmp_path / "x.json") is None


def test_answers_in_words_are_draws(tmp_path):
    found = one(
        tmp_path, "7", "Capital of Peru?", ["Lima", "City of Lima"], [0, 1], ["Lima", "Cusco"], subject="geography", category="easy"
    )
    assert (found.id, found.question, found.prompt) == ("7", "Capital of Peru?", "<user>Capital of Peru?")
    assert (found.references, found.choices, found.category, found.meta) == (("Lima", "City of Lima"), (), "easy", {"subject": "geography"})
    assert found.draws == [{"text": "Lima"}, {"text": "Cusco"}]


def test_log_probabilities_of_tokens_where_there_are_as_many(tmp_path):
    two = {"text": "two words", "verdict": 1.0}
    assert one(tmp_path, "7", "?", ["a"], 0, ["two words"], [-0.5, -0.25]).draws == [{**two, "token_logprobs": [-0.5, -0.25]}]
    assert one(tmp_path, "7", "?", ["a"], 0, ["two words"], [-0.5]).draws == [two]
    assert one(tmp_path, "7", "?", ["a"], 0, ["word"], [-0.5]).draws == [{"text": "word", "token_logprobs": [-0.5], "verdict": 1.0}]


@pytest.mark.parametrize(
    ("query", "choices", "question", "options"),
    [
        ("Which?", [" a cat", " a dog"], "Which?", ("a cat", "a dog")),
        (LETTERED, [" A", " B"], "What is it?", ("a cat", "a dog")),
        (LETTERED, ["a cat", "a dog"], "What is it?", ("a cat", "a dog")),
        (LETTERED, ["a cat", "a hen"], LETTERED, ("a cat", "a hen")),
        (LETTERED, ["A.", "B. dog"], "What is it?", ("a cat", "a dog")),
        ("A. a cat\nB. a dog", ["A", "B"], "A. a cat\nB. a dog", ("A", "B")),
    ],
)
def test_log_likelihoods_of_options(tmp_path, query, choices, question, options):
    found = one(tmp_path, "7", query, choices, 1, (), [-2.5, -0.5])
    assert (found.question, found.choices, found.answer_index, found.doubt) == (question, options, 1, "")
    assert found.draws == [{"option_logits": [-2.5, -0.5], "verdict": 1.0}]


def test_options_that_are_answered_in_words(tmp_path):
    found = one(tmp_path, "7", LETTERED, ["A. a cat", "B. a dog"], 1, ["B"])
    assert (found.question, found.choices, found.answer_index, found.references) == ("What is it?", ("a cat", "a dog"), 1, ())


def test_several_right_options_are_a_doubt(tmp_path):
    found = one(tmp_path, "7", "Which?", ["a", "b", "c"], [0, 2], (), [-1.0, -2.0, -3.0])
    assert found.answer_index is None and found.doubt == "2 options are right"
    for gold, doubt in ([3], "0 options are right"), ([-1], "0 options are right"), ([2], ""):
        found = one(tmp_path, "7", "Which?", ["a", "b", "c"], gold, (), [-1.0, -2.0, -3.0])
        assert (found.answer_index, found.doubt) == (None if doubt else 2, doubt)


def test_pictures_and_thinking(tmp_path):
    found = one(tmp_path, "7", "?", ["a"], 0, ["a"], images=[png(), png("blue")], response={"reasonings": ["hm"]})
    assert found.images == (png(), png("blue")) and found.n_pictures == 2
    assert found.draws == [{"text": "a", "thinking": "hm", "verdict": 1.0}]
    missing = one(tmp_path, "7", "?", ["a"], 0, ["a"], images=[png(), b""])
    assert "not in the log" in missing.lacking and missing.images == () and missing.n_pictures == 2
    assert one(tmp_path, "7", "?", ["a"], 0, ["a"], response={"reasonings": [""]}).draws == [{"text": "a", "verdict": 1.0}]


@pytest.mark.parametrize(("n", "lacking"), [(64, ""), (65, "it has 65 images; more than 64 cannot be read")])
def test_more_pictures_than_are_taken(tmp_path, n, lacking):
    found = one(tmp_path, "7", "?", ["a"], 0, ["a"], images=[png(side=1)] * n)
    assert (found.n_pictures, len(found.images), found.lacking) == (n, 0 if lacking else n, lacking)


def test_fields_and_filters(tmp_path):
    row = ("7", "?", ["a"], 0, ["<think>hm</think> a"])
    fields = ReadOptions({"id": "key", "target": "right"}, "post_processed")
    found = one(tmp_path, *row, response={"text_post_processed": ["a"]}, key="k", right=0, how=fields)
    assert (found.id, found.draws, found.references) == ("k", [{"text": "a", "verdict": 1.0}], ("a",))
    with pytest.raises(RecordingError, match="no filter 'other'; lighteval's details have 'post_processed'"):
        one(tmp_path, *row, how=ReadOptions(filter="other"))


def test_names_of_columns_as_lighteval_documents_them(tmp_path):
    path = lighteval(tmp_path, lighteval_row("0", "?", ["a"], 0, ["a"]), names=("__doc__", "__model_response__"))
    (found,) = read(path, ReadOptions())
    assert found.draws == [{"text": "a", "verdict": 1.0}]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("", "?", ["a"], 0, ["a"]), "no id"),
        (("7", "?", ["a"], 0), "no response"),
        (("7", "?", ["a"], 0, (), [-1.0]), "no answer: the likelihood of a text"),
        (("7", "?", ["a", "b"], 0, (), [-1.0]), "not one log-likelihood per option"),
    ],
)
def test_faults(tmp_path, args, reason):
    found = one(tmp_path, *args)
    assert isinstance(found, Fault) and found.reason == reason and "row 0" in found.where


def test_an_answer_that_is_no_text_spoils_them_all(tmp_path):
    found = one(tmp_path, "7", "?", ["a"], 0, ["a", "b"], response={"text": ["a", None]})
    assert isinstance(found, Fault) and found.reason == "no response"


def test_impossible_numbers_are_undefined(tmp_path):
    found = one(tmp_path, "7", "Which?", ["a", "b"], 0, (), [-1.0, 5.0])
    assert found.draws == [{"verdict": 1.0}] and found.impossible == ["option_logits: a log-probability above 0: 5.0"]
