"""lm-evaluation-harness's logged samples, row by row."""

import math

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.lm_eval import names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, Record
from tests.support.data.recordings import CAPITALS, leh, leh_choice, leh_open, lines


def one(tmp_path, row, **how):
    (found,) = read(leh(tmp_path, row), ReadOptions(**how))
    return found


def test_a_generated_answer(tmp_path):
    found = one(tmp_path, leh_open(4, "Capital of Peru?", "Lima", "Lima", "lima", "Cusco"))
    assert isinstance(found, Record) and found.where.endswith(".jsonl:1")
    assert (found.id, found.question, found.references) == ("4", "Capital of Peru?", ("Lima",))
    assert found.prompt == "Q: Capital of Peru?\nA:"
    assert found.draws == [{"text": "Lima"}, {"text": "lima"}, {"text": "Cusco"}]
    assert found.meta == {"subject": "geography", "level": "3"}


def test_log_likelihoods_of_options_become_logits(tmp_path):
    found = one(tmp_path, leh_choice(0, "Capital of Peru?", ["Rome", "Lima"], 1, [-3.5, -0.25]))
    assert found.choices == ("Rome", "Lima") and found.answer_index == 1
    assert found.draws == [{"option_logits": [-3.5, -0.25], "verdict": 1.0}]


def test_numbers_that_were_not_made_text(tmp_path):
    row = leh_choice(0, "?", ["a", "b"], 0, [-1.0, -2.0])
    row["resps"], row["arguments"] = [[[-1.0, True]], [[-2.0, False]]], [["?", " a"], ["?", " b"]]
    assert one(tmp_path, row).draws == [{"option_logits": [-1.0, -2.0], "verdict": 1.0}]


@pytest.mark.parametrize(
    ("target", "choices", "numbers", "acc", "index"),
    [
        ("2", ["x", "y", "z"], [-1, -2, -3], 0, 2),
        ("y", ["x", "y", "z"], [-1, -2, -3], 0, 1),
        ("C", ["x", "y", "z"], [-1, -2, -3], 0, 2),
        ("1", ["3", "2", "1"], [-1, -2, -3], 0.0, None),  # the third by text, the second by number, and the answer was the first
        ("1", ["3", "2", "1"], [-2, -1, -3], 1.0, 1),
        ("1", ["3", "2", "1"], [-2, -1, -3], 0.0, 2),
        ("nothing", ["x", "y"], [-1, -2], 0, None),
    ],
)
def test_the_right_option_is_told_or_unknown_never_guessed(tmp_path, target, choices, numbers, acc, index):
    row = {**leh_choice(0, "?", choices, 0, numbers), "target": target, "acc": acc}
    found = one(tmp_path, row)
    assert found.answer_index == index
    assert bool(found.doubt) == (index is None)
    assert found.draws == [{"option_logits": [float(v) for v in numbers], "verdict": float(acc)}]


@pytest.mark.parametrize(("index", "expected"), [(0, 0), (2, 2), (3, None), (-1, None)])
def test_an_export_of_ours_says_which_option_is_right(tmp_path, index, expected):
    """Target 1 is the third option by its text and the second by its number, and the log's `acc` tells neither."""
    doc = {"sample_id": "a", "question": "?", "choices": ["3", "2", "1"], "answer_index": index}
    row = {**leh_choice(0, "?", doc["choices"], 0, [-1, -2, -3]), "doc": doc, "target": "1", "acc": 0.0}
    assert one(tmp_path, row).answer_index == expected
    in_words = one(tmp_path, {**leh_open(0, "?", "1", "the first"), "doc": doc})
    assert (in_words.choices, in_words.answer_index) == (("3", "2", "1") if expected is not None else (), expected)


@pytest.mark.parametrize(("target", "index"), [("2", 2), ("3", None), ("z", None), ("x", 0), ("c", 2), ("d", None)])
def test_a_target_is_a_number_a_text_or_a_letter_of_an_option_that_there_is(tmp_path, target, index):
    """`y` stands for two options, the third has the letter C, and there is no fourth."""
    found = one(tmp_path, {**leh_choice(0, "?", ["x", "y", "y"], 0, [-1, -2, -3]), "target": target})
    assert found.answer_index == index
    assert found.doubt == ("" if index is not None else f"no option fits the target '{target}'")


def test_requests_by_their_numbers_and_options_by_what_was_scored(tmp_path):
    """A log with keys in the order of texts, `gen_args_10` before `gen_args_2`."""
    row = leh_choice(0, "?", [f"option {n}" for n in range(12)], 11, [-float(n + 1) for n in range(12)])
    row["arguments"] = dict(sorted(row["arguments"].items()))
    row["doc"] |= {"choices": ["too", "few"]}
    found = one(tmp_path, row)
    assert found.choices == tuple(f"option {n}" for n in range(12)) and found.answer_index == 11
    assert one(tmp_path, {**row, "doc": {"choices": {"text": list("abcdefghijkl")}}}).choices == tuple("abcdefghijkl")


def test_numbers_that_cannot_be_log_likelihoods(tmp_path):
    found = one(tmp_path, leh_choice(0, "?", ["a", "b"], 0, [-1.0, 0.5]))
    assert (found.draws, found.impossible) == ([{"verdict": 0.0}], ["option_logits: a log-probability above 0: 0.5"])


def test_options_of_the_document_or_the_prompt_where_answers_are_words(tmp_path):
    row = leh_open(0, "What?\nA. a cat\nB. a dog", "B", "b")
    assert one(tmp_path, row).choices == ("a cat", "a dog"), "listed in the prompt"
    row["doc"] |= {"options": ["x", "a hen"], "mine": ["a cow", "a pig"]}
    assert (one(tmp_path, row).choices, one(tmp_path, row).answer_index) == (("x", "a hen"), 1)
    assert one(tmp_path, row, fields={"choices": "mine"}).choices == ("a cow", "a pig")
    assert one(tmp_path, {**row, "target": "a dog"}).choices == ("a cat", "a dog"), "none of those that the document lists"


@pytest.mark.parametrize(
    ("doc", "pictures"),
    [
        ({"sample_id": "s", "image_id": '["a.png", "b.png"]'}, 2),
        ({"sample_id": "s", "image_id": "a.png"}, 1),
        ({"sample_id": "s", "image_id": '["a.png"'}, None),
        ({"sample_id": "s", "image_id": None}, None),
        ({"image_id": "a.png"}, None),
    ],
)
def test_an_export_of_ours_says_how_many_pictures_there_were(tmp_path, doc, pictures):
    row = leh_open(0, "?", "a", "b")
    assert one(tmp_path, {**row, "doc": {**row["doc"], **doc}}).n_pictures == pictures


def test_rows_of_a_second_filter_say_nothing_new(tmp_path):
    path = leh(tmp_path, leh_open(0, "?", "a", "it is a", filter="strict"), leh_open(0, "?", "a", "it is a", filter="flexible"))
    first, second = read(path, ReadOptions())
    assert first.draws == [{"text": "it is a", "verdict": 0.0}]
    assert isinstance(second, Fault) and second.harmless and second.reason == "row of another filter"


def test_a_filter_that_is_asked_for(tmp_path):
    row = {**leh_open(0, "?", "a", "it is a", filter="strict"), "filtered_resps": ["a"], "exact_match": 1.0}
    assert one(tmp_path, row, filter="strict").draws == [{"text": "a", "verdict": 1.0}]


def test_fields_of_the_document_by_other_names(tmp_path):
    row = leh_open(0, "?", "x", "a")
    row["doc"] = {"qid": 17, "text": "Which?", "gold": ["a", "b"], "kind": "why"}
    found = one(tmp_path, row, fields={"id": "qid", "question": "text", "target": "gold", "category": "kind"})
    assert (found.id, found.question, found.references, found.category) == ("17", "Which?", ("a", "b"), "why")


def test_a_list_that_was_logged_as_text(tmp_path):
    assert one(tmp_path, leh_open(0, "?", "['a', \"b's\"]", "a")).references == ("a", "b's")
    assert one(tmp_path, leh_open(0, "?", "[not a list", "a")).references == ("[not a list",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resps": []}, "no response"),
        ({"resps": None}, "no response"),
        ({"resps": [{"a": 1}]}, "responses are neither"),
        ({"arguments": None}, "no arguments"),
        ({"doc_id": None}, "no id"),
        ({"doc_id": True}, "no id"),
        ({"resps": [[["-1", "False"]]]}, "not one log-likelihood per option"),
        ({"resps": [["-12.5"]], "arguments": {"gen_args_0": {"arg_0": "a text"}}}, "no answer: the likelihood of a text"),
        ({"resps": [[["nan", "False"]], [["-1", "True"]]]}, "a log-likelihood is not a number"),
        ({"qualm": {"signals": []}}, "damaged 'qualm'"),
        ({"qualm": {"signals": [{"token_logprobs": ["x"]}]}}, "damaged 'qualm'"),
    ],
)
def test_rows_that_are_not_as_the_format_has_them(tmp_path, change, reason):
    found = one(tmp_path, {**leh_open(0, "?", "a", "a"), **change})
    assert isinstance(found, Fault) and found.reason.startswith(reason)


def test_lines_that_are_no_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("qualm.registry.recordings.jsonl.MAX_LINE", 2000)
    long = leh_open(1, "x" * 5000, "a", "a")
    deep = "[" * 100_000
    path = leh(tmp_path, leh_open(0, "?", "a", "a"), "{", "", "[1]", long, deep[:1500], leh_open(2, "?", "a", "a"))
    found = [(f.where.rpartition(":")[2], getattr(f, "reason", "")) for f in read(path, ReadOptions())]
    assert found == [("1", ""), ("2", "not JSON"), ("4", "not an object"), ("5", "line too long"), ("6", "not JSON"), ("7", "")]


def test_what_a_file_is_called(tmp_path):
    assert names(leh(tmp_path, leh_open(0, "?", "a", "a"), task="my_task")) == {
        ("my__model", "my_task"),
        ("2026-03-01T10-11-12.345678", "my_task"),
    }
    assert names(lines(tmp_path / "x" / "other.jsonl", leh_open(0, "?", "a", "a"))) == {("x", "other")}
    least = {"doc_id": 0, "arguments": [], "filtered_resps": []}
    assert names(lines(tmp_path / "x" / "least.jsonl", least)) == {("x", "least")} and names(lines(tmp_path / "x.json", least)) is None
    assert names(lines(tmp_path / "y.jsonl", {"a": 1})) is None
    assert names(lines(tmp_path / "empty.jsonl")) is None


@pytest.mark.slow
def test_a_log_that_lm_eval_wrote(tmp_path, monkeypatch):
    lm_eval = pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed; pip install lm-eval")
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    questions = [{"q": f"Capital {i}?", "options": CAPITALS, "gold": i} for i in range(3)]
    data = lines(tmp_path / "data.jsonl", *questions)
    common = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\ndoc_to_text: 'Q: {{{{q}}}}\\nA:'\n"
    options = "task: own_mc\noutput_type: multiple_choice\ndoc_to_choice: options\ndoc_to_target: gold\nmetric_list: [{metric: acc}]\n"
    text = (
        "task: own_gen\noutput_type: generate_until\nrepeats: 3\ndoc_to_target: '{{options[gold]}}'\nmetric_list: [{metric: exact_match}]\n"
    )
    for name, own in (("mc", options), ("gen", text + "generation_kwargs: {until: ['x'], do_sample: false}\n")):
        lines(tmp_path / "tasks" / f"{name}.yaml", (own + common).rstrip())
    manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    results = lm_eval.simple_evaluate("dummy", tasks=["own_mc", "own_gen"], task_manager=manager, log_samples=True)
    tracker, samples = EvaluationTracker(output_path=str(tmp_path / "out")), results.pop("samples")
    tracker.general_config_tracker.model_name_sanitized = "dummy"
    tracker.save_results_aggregated(results, samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task, rows)
    generated, options = find_parts(tmp_path / "out")
    assert (generated.format, options.format) == ("lm-eval", "lm-eval") and options.has("dummy", "own_mc")
    found = list(options.read(ReadOptions({"question": "q"})))
    assert [(r.question, r.choices, r.answer_index) for r in found] == [(f"Capital {i}?", tuple(CAPITALS), i) for i in range(3)]
    assert all(len(r.draws[0]["option_logits"]) == 3 and max(r.draws[0]["option_logits"]) < 0 for r in found)
    found = list(generated.read(ReadOptions()))
    assert [(r.id, r.choices, r.answer_index, len(r.draws)) for r in found] == [(str(i), tuple(CAPITALS), i, 3) for i in range(3)]


@pytest.mark.parametrize(
    ("numbers", "chosen"),
    [([-1.0, float("-inf"), float("-inf")], 0), ([float("-inf"), -3e4, -2e4], 2), ([float("-inf"), -20.0, float("-inf")], 1)],
)
def test_an_option_at_minus_infinity_is_ruled_out(tmp_path, numbers, chosen):
    """Its number stays finite and the probabilities of the others are as they were."""
    (part,) = find_parts(leh(tmp_path, leh_choice(0, "?", ["a", "b", "c"], chosen, numbers)).parent)
    (found,) = part.read(ReadOptions())
    logits = found.draws[0]["option_logits"]
    assert logits.index(max(logits)) == chosen
    assert all(after == before for before, after in zip(numbers, logits, strict=True) if before != float("-inf"))
    assert all(math.exp(v - max(logits)) == 0 for before, v in zip(numbers, logits, strict=True) if before == float("-inf"))
    assert not found.impossible
