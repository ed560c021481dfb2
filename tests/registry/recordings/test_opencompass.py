"""OpenCompass's predictions and details, entry by entry."""

import json
import math

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.opencompass import names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from tests.support.data.recordings import opencompass, opencompass_entry

LETTERED = "What is it?\nA. a cat\nB. a dog\nAnswer:"


def label(ppl, **more):
    return {"testing input": "Q: which? A:", "prompt": "Q: which? A:", **({"PPL": ppl, "BPB": 1.0} if ppl is not None else {}), **more}


ANY = ReadOptions()


def one(tmp_path, entry, how=ANY):
    (found,) = read(opencompass(tmp_path, entry), how)
    return found


def test_runs_and_tasks(tmp_path):
    path = opencompass(tmp_path / "20260301", opencompass_entry("?", "a", "a"))
    assert names(path) == {("my-model", "capitals"), ("20260301", "capitals")}
    assert [part.format for part in find_parts(tmp_path)] == ["opencompass"]
    assert names(path.rename(path.with_suffix(".txt"))) is None
    for text in ('{"a": {"prediction": 1}}', '{"0": 1}', "[]", '{"error": "x"}', "{", '{"0": {"x": 1}}'):
        path.write_text(text)
        assert names(path) is None


def test_answers_in_words(tmp_path):
    turns = [{"role": "SYSTEM", "prompt": "Be short."}, {"role": "HUMAN", "prompt": "Capital of Peru?"}]
    path = opencompass(
        tmp_path, opencompass_entry("Which?", "Cusco"), {"origin_prompt": turns, "prediction": ["Lima", "x"], "gold": ["Lima", "L"]}
    )
    first, second = read(path, ReadOptions())
    assert (first.id, first.question, first.references, first.draws) == ("0", "Which?", (), [{"text": "Cusco"}])
    assert (second.id, second.question, second.prompt) == ("1", "Capital of Peru?", "Be short.\nCapital of Peru?")
    assert (second.references, second.draws) == (("Lima", "L"), [{"text": "Lima"}, {"text": "x"}])


def test_options_in_the_prompt(tmp_path):
    found = one(tmp_path, opencompass_entry(LETTERED, {"prediction": "B", "rollout": {}}, "B"))
    assert (found.question, found.choices, found.answer_index, found.draws) == ("What is it?", ("a cat", "a dog"), 1, [{"text": "B"}])


@pytest.mark.parametrize(("numbers", "logits"), [({"PPL": 2.5}, [-2.5, -0.5]), ({"Loglikelihood": -2.5}, [-2.5, -0.5])])
def test_numbers_of_labels(tmp_path, numbers, logits):
    second = {name: 0.5 if value > 0 else -0.5 for name, value in numbers.items()}
    entry = {
        "label: A": label(None, **numbers),
        "label: B": label(None, **second),
        "prediction": "B",
        "gold": "B",
        "in-context examples": "",
    }
    found = one(tmp_path, entry)
    assert (found.choices, found.answer_index, found.question) == (("A", "B"), 1, "Q: which? A:")
    assert found.draws == [{"option_logits": logits}]


def test_probabilities_of_choices(tmp_path):
    entry = {"testing input": "p", "prompt": "p", "choices": ["no", "yes"], "prediction": [0.25, 0.75], "pred_label": 1, "gold": 1}
    found = one(tmp_path, entry)
    assert (found.choices, found.answer_index) == (("no", "yes"), 1)
    assert found.draws == [{"option_logits": [math.log(0.25), math.log(0.75)]}]
    assert one(tmp_path, {**entry, "prediction": [5e-324, 1]}).draws == [{"option_logits": [math.log(5e-324), 0.0]}]


@pytest.mark.parametrize(("gold", "index"), [(0, 0), (1, 1), (2, None), (-1, None), ("no", 0), (True, None)])
def test_the_place_of_the_right_option_as_a_number(tmp_path, gold, index):
    found = one(tmp_path, {"prompt": "p", "choices": ["no", "yes"], "prediction": [0.25, 0.75], "pred_label": 1, "gold": gold})
    assert found.answer_index == index and bool(found.doubt) == (index is None)


def test_an_option_that_is_a_number_is_right_by_its_text(tmp_path):
    assert one(tmp_path, {"prompt": "p", "choices": ["1", "0"], "prediction": [0.25, 0.75], "gold": 0}).answer_index == 1


def test_pieces_are_one_task(tmp_path):
    for n, answers in enumerate((["a", "b"], ["c"])):
        opencompass(tmp_path, *(opencompass_entry("?", answer) for answer in answers), data=f"big_{n}")
    (part,) = find_parts(tmp_path)
    assert ("my-model", "big") in part.names
    opencompass(tmp_path, opencompass_entry("?", "d"), data="big_2")
    assert [(r.id, r.draws[0]["text"]) for r in part.read(ReadOptions())] == [("0", "a"), ("1", "b"), ("2", "c"), ("3", "d")]
    opencompass(tmp_path, opencompass_entry("?", "x"), data="big")
    assert {task for part in find_parts(tmp_path) for _, task in part.names} == {"big", "big_0", "big_1", "big_2"}


def test_details_of_results_where_there_are_no_predictions(tmp_path):
    path = opencompass(tmp_path, kind="results")
    detail = {"prompt": "Capital of Peru?", "origin_prediction": "It is Lima", "predictions": "Lima", "references": "Lima", "correct": True}
    ppl = {"origin_prediction": {"A": label(2.5), "B": label(0.5)}, "predictions": "B", "references": "B", "correct": True}
    path.write_text(json.dumps({"accuracy": 50.0, "details": {"type": "GEN", "0": detail, "1": ppl}}))
    first, second = read(path, ReadOptions())
    assert (first.question, first.references, first.draws) == ("Capital of Peru?", ("Lima",), [{"text": "It is Lima", "verdict": 1.0}])
    assert (second.choices, second.answer_index, second.draws) == (("A", "B"), 1, [{"option_logits": [-2.5, -0.5], "verdict": 1.0}])
    assert next(read(path, ReadOptions(filter="extracted"))).draws == [{"text": "Lima", "verdict": 1.0}]
    with pytest.raises(RecordingError, match="no filter 'x'"):
        list(read(path, ReadOptions(filter="x")))
    path.write_text(json.dumps({"accuracy": 50.0, "details": [{"pred": "Lima", "answer": "Lima", "correct": True}]}))
    (listed,) = read(path, ReadOptions())
    assert names(path) and (listed.id, listed.references, listed.draws) == ("0", ("Lima",), [{"text": "Lima", "verdict": 1.0}])
    opencompass(tmp_path, opencompass_entry("?", "a"))
    assert [part.path.parent.parent.name for part in find_parts(tmp_path)] == ["predictions"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("x", "not an object"),
        (opencompass_entry("?", None), "no response"),
        (opencompass_entry("?", []), "no response"),
        ({"origin_prompt": [[{"role": "HUMAN", "prompt": "?"}]], "prediction": ["a"]}, "several rounds; a sample is one turn"),
        ({"label: A": label(1.0), "prediction": "A"}, "not one number per option"),
        ({"label: A": label(1.0), "label: B": label("nan"), "prediction": "A"}, "a number that cannot be"),
        ({"choices": ["a", "b"], "prediction": [0.5, 0.0]}, "not one probability per option"),
        ({"choices": ["a", "b"], "prediction": [0.5, 1.5]}, "not one probability per option"),
        ({"choices": ["a", "b"], "prediction": [0.5, 0.25, 0.25]}, "not one probability per option"),
        ({"choices": ["a"], "prediction": [1.0]}, "not one probability per option"),
    ],
)
def test_faults(tmp_path, entry, reason):
    fault, good = read(opencompass(tmp_path, entry, opencompass_entry("?", "a")), ReadOptions())
    assert isinstance(fault, Fault) and fault.reason == reason and "'0'" in fault.where
    assert good.draws == [{"text": "a"}]


@pytest.mark.parametrize(
    ("prompt", "question", "sent"),
    [
        ("as a text", "as a text", "as a text"),
        (
            [{"role": "user", "content": "first"}, {"role": "bot", "content": "hm"}, {"role": "User", "content": "last"}],
            "last",
            "first\nhm\nlast",
        ),
        ([{"role": "bot", "content": "hm"}], "", "hm"),
        ([], "", ""),
        (None, "", ""),
    ],
)
def test_the_last_question_of_a_prompt(tmp_path, prompt, question, sent):
    found = one(tmp_path, {"origin_prompt": prompt, "prediction": "a", "gold": "a"})
    assert (found.question, found.prompt) == (question, sent)


def test_fields_by_other_names(tmp_path):
    entry = opencompass_entry("Which?", "a", "a", key=7, words="How?", right="b", kind="easy")
    found = one(tmp_path, entry, ReadOptions({"id": "key", "question": "words", "target": "right", "category": "kind"}))
    assert (found.id, found.question, found.references, found.category) == ("7", "How?", ("b",), "easy")
    assert (
        one(tmp_path, entry, ReadOptions({"id": "none"})).reason
        == one(tmp_path, {**entry, "key": True}, ReadOptions({"id": "key"})).reason
        == "no id"
    )
    assert one(tmp_path, {**entry, "gold": 0}).references == ("0",), "a right answer of 0 is one where it is there"


def test_which_option_is_right_where_the_log_does_not_say(tmp_path):
    found = one(tmp_path, {"label: A": label(1.0), "label: B": label(2.0), "prediction": "A"})
    assert found.answer_index is None and "no option fits" in found.doubt


def test_a_key_that_comes_twice(tmp_path):
    """As where a part between two records is lost."""
    path = opencompass(tmp_path, opencompass_entry("?", "a"))
    path.write_text(path.read_text().replace('"prediction":', '"prediction": "x", "prediction":'))
    with pytest.raises(RecordingError, match=r"the key 'prediction' occurs twice"):
        list(read(path, ReadOptions()))


def test_a_cut_file(tmp_path):
    path = opencompass(tmp_path, opencompass_entry("?", "a"))
    path.write_text(path.read_text()[:-5])
    with pytest.raises(RecordingError, match=r"capitals.json: line 10: expected a whole JSON object"):
        list(read(path, ReadOptions()))
