"""Every Eval Ever's instance-level logs, line by line."""

import json

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.every_eval_ever import names, read
from qualm.registry.recordings.parts import choose, find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from tests.support.data.recordings import eee, eee_line

PERU = eee_line("peru", "Capital of Peru?", "Lima", "Lima", metadata={"category": "geography", "level": "3", "split": "dev"})
PETS = ["a cat", "a dog"]


def one(tmp_path, row, **how):
    (found,) = read(eee(tmp_path, row), ReadOptions(**how))
    return found


def test_a_question_and_its_answer(tmp_path):
    path = eee(tmp_path, PERU)
    runs = {"org/m", "m", "f3a1c0de-4b2e-4c1a-9f6d-1b7e5a2c8d40", "capitals/org/m/1767225600"}
    assert names(path) == {(run, "capitals") for run in runs}
    (found,) = read(path, ReadOptions())
    assert (found.id, found.question, found.prompt, found.references) == ("peru", "Capital of Peru?", "Q: Capital of Peru?", ("Lima",))
    assert (found.category, found.split, found.meta) == ("geography", "dev", {"level": "3"})
    assert found.draws == [{"text": "Lima", "verdict": 1.0}] and found.draw == 0


def test_a_question_by_other_fields(tmp_path):
    row = eee_line(
        "peru", "Q: Capital of Peru?", "x", "Lima", metadata={"qid": "7", "bare": "Capital of Peru?", "gold": "Lima", "kind": "geo"}
    )
    found = one(tmp_path, row, fields={"id": "qid", "question": "bare", "target": "gold", "category": "kind"})
    assert (found.id, found.question, found.references, found.category) == ("7", "Capital of Peru?", ("Lima",), "geo")


def test_several_answers_are_draws_and_have_no_common_verdict(tmp_path):
    row = eee_line("peru", "Capital of Peru?", "Lima", "Lima", "Cusco")
    row["output"]["reasoning_trace"] = ["hm", ""]
    assert one(tmp_path, row).draws == [{"text": "Lima", "thinking": "hm"}, {"text": "Cusco"}]


def test_lines_of_other_metrics_say_nothing_new_and_repeats_are_draws(tmp_path):
    again = {**PERU, "output": {"raw": ["Cusco"]}, "evaluation": {"score": 0, "is_correct": False}}
    rows = [{**row, "evaluation_result_id": metric} for row in (PERU, again) for metric in ("exact_match", "f1")]
    first, other, second, third = read(eee(tmp_path, *rows), ReadOptions())
    assert (first.draw, second.draw) == (0, 1) and [first.draws[0]["text"], second.draws[0]["text"]] == ["Lima", "Cusco"]
    assert [item.reason for item in (other, third)] == ["another metric of the same question"] * 2 and other.harmless
    assert second.draws[0]["verdict"] == 0.0


def test_an_evaluation_is_chosen_where_a_file_has_several(tmp_path):
    path = eee(tmp_path, PERU, {**PERU, "evaluation_name": "rivers", "output": {"raw": ["Amazon"]}})
    parts = find_parts(tmp_path)
    assert [part.format for part in parts] == ["every-eval-ever"]
    _, (other, found) = (list(choose(tmp_path, parts, "m", task).read(ReadOptions())) for task in ("capitals", "rivers"))
    assert other.reason == "row of another evaluation" and other.harmless and found.draws[0]["text"] == "Amazon"
    with pytest.raises(RecordingError, match="several evaluations, 'capitals' and 'rivers'; say which with `task:`"):
        list(read(path, ReadOptions()))


@pytest.mark.parametrize(
    ("reference", "choices", "metadata", "index"),
    [
        ("a dog", PETS, None, 1),
        ("B", PETS, None, 1),
        ("1", PETS, None, None),
        ("1", PETS, {"lm_eval_metrics": "{}"}, 1),
        ("1", ["1", "0"], {"lm_eval_metrics": "{}"}, None),
        ("B", ["B", "A"], None, None),
        ("a hen", PETS, None, None),
    ],
)
def test_the_right_option_by_text_letter_or_number(tmp_path, reference, choices, metadata, index):
    found = one(tmp_path, eee_line("a", "Which?", reference, "a dog", choices=choices, metadata=metadata))
    assert (found.choices, found.answer_index) == (tuple(choices), index) and bool(found.doubt) == (index is None)


def test_references_listed_as_options_and_options_in_the_question(tmp_path):
    assert one(tmp_path, eee_line("a", "Who?", "Ann", "Ann", choices=["Ann"])).references == ("Ann",)
    found = one(tmp_path, eee_line("a", "Which?\nA. a cat\nB. a dog", "B", "B"))
    assert (found.question, found.choices, found.answer_index) == ("Which?", ("a cat", "a dog"), 1)


def test_schema_0_2_has_texts_for_lists(tmp_path):
    row = {**PERU, "schema_version": "0.2.0", "input": {"raw": "Capital of Peru?", "reference": "Lima"}, "output": {"raw": "[Lima]"}}
    found = one(tmp_path, row)
    assert (found.prompt, found.references, found.draws) == ("Capital of Peru?", ("Lima",), [{"text": "[Lima]", "verdict": 1.0}])


def test_a_reply_of_reasoning_alone_is_no_answer(tmp_path):
    row = {**PERU, "output": {"raw": [""], "reasoning_trace": ["hm", "ah"]}}
    (draw,) = one(tmp_path, row).draws
    assert draw["text"] is None and draw["thinking"] == "hm\n\nah" and draw["no_answer"] == "ended while thinking"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interaction_type": "agentic", "output": None, "messages": []}, "not a single turn"),
        ({"output": {"raw": []}}, "no response"),
        ({"output": {"raw": [3]}}, "expected a list of texts"),
        ({"output": {"raw": [""]}, "error": "timeout"}, "ended in an error"),
        ({"sample_id": None}, "no id"),
        ({"metadata": {"qualm": "[{}, {}]"}}, "damaged 'qualm'"),
        ({"metadata": {"qualm": '[{"password": 1}]'}}, "damaged 'qualm'"),
        ({"metadata": {"qualm": "["}}, "not a row of this format"),
        ({"metadata": 7}, "not a row of this format"),
        ({"input": "?"}, "not a row of this format"),
    ],
)
def test_lines_that_are_not_as_the_format_has_them(tmp_path, change, reason):
    good, found = read(eee(tmp_path, {**PERU, "sample_id": "x"}, {**PERU, **change}), ReadOptions())
    assert good.id == "x" and isinstance(found, Fault) and found.reason == reason and ":2" in found.where


@pytest.mark.parametrize("form", ["auto", "every-eval-ever"])
def test_scores_without_answers_are_refused(tmp_path, form):
    path = tmp_path / "f3a1.json"
    result = {"evaluation_name": "capitals", "score_details": {"score": 0.5}}
    log = {"schema_version": "0.3.0", "evaluation_id": "e", "model_info": {"id": "org/m"}, "evaluation_results": [result]}
    path.write_text(json.dumps({**log, "detailed_evaluation_results": {"format": "jsonl", "file_path": "../../etc/passwd"}}))
    with pytest.raises(RecordingError, match="log of scores alone, without answers; add the file of its answers, `f3a1_samples"):
        find_parts(tmp_path, form)
    eee(tmp_path, PERU)
    assert [part.format for part in find_parts(tmp_path, form)] == ["every-eval-ever"]
