"""lmms-eval's logged samples, row by row."""

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.lmms_eval import names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions
from tests.support.data.recordings import leh, leh_open, lines, lmms, lmms_row


def one(tmp_path, row, **how):
    (found,) = read(lmms(tmp_path, row), ReadOptions(**how))
    return found


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        (lmms_row(0, "?", "a", "yes"), ["yes"]),  # resps dropped, since equal
        (lmms_row(0, "?", "a", ["yes"]), ["yes"]),
        (lmms_row(0, "?", "a", "yes", resps=["Yes.", "No."]), ["Yes.", "No."]),  # repeats
        (lmms_row(0, "?", "a", "yes", resps=[["Yes."], ["No."]]), ["Yes.", "No."]),
    ],
)
def test_generated_answers_in_every_shape(tmp_path, row, texts):
    found = one(tmp_path, row)
    assert [draw["text"] for draw in found.draws] == texts
    assert (found.id, found.prompt, found.references) == ("0", "?\nAnswer briefly.", ("a",))
    assert found.meta == {"exact_match": "1.0"}


def test_the_filtered_answer_where_it_is_asked_for(tmp_path):
    row = lmms_row(0, "?", "a", "yes", resps=["Yes, it is."])
    assert one(tmp_path, row, filter="filtered").draws == [{"text": "yes", "verdict": 1.0}]


def test_losses_are_turned_into_logits(tmp_path):
    found = one(tmp_path, lmms_row(0, "?", "1", [["2.5", "False"], ["0.0", "True"], ["0.75", "False"]]))
    assert found.draws == [{"option_logits": [-2.5, -0.0, -0.75], "verdict": 1.0}]
    assert (found.choices, found.answer_index) == (("A", "B", "C"), 1)


def test_log_likelihoods_stay(tmp_path):
    found = one(tmp_path, lmms_row(0, "?", "B", [["-2.5", "False"], ["-0.5", "True"]], resps=[[["-2.5", "False"]], [["-0.5", "True"]]]))
    assert found.draws == [{"option_logits": [-2.5, -0.5], "verdict": 1.0}] and found.answer_index == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (lmms_row(0, "?", "1", [["2.5", "False"], ["-1.0", "True"]]), "neither losses nor log-likelihoods"),
        (lmms_row(None, "?", "1", "a"), "no id"),
        (lmms_row(0, "?", "1", 7), "responses are neither"),
        (lmms_row(0, "?", "1", ["-3.5", "False"]), "no answer: the likelihood of a text"),
    ],
)
def test_rows_that_are_not_as_the_format_has_them(tmp_path, row, reason):
    found = one(tmp_path, row)
    assert isinstance(found, Fault) and found.reason.startswith(reason)


@pytest.mark.parametrize(("numbers", "logits"), [((-2.0, 0.0), [-2.0, 0.0]), ((0.0, 0.0), [0.0, 0.0]), ((0.0, 3.0), [0.0, -3.0])])
def test_zero_is_a_loss_and_a_log_likelihood(tmp_path, numbers, logits):
    found = one(tmp_path, lmms_row(0, "?", "A", [[str(v), "False"] for v in numbers]))
    assert found.draws == [{"option_logits": logits, "verdict": 1.0}]


@pytest.mark.parametrize(
    ("target", "index", "doubt"),
    [
        ("2", 2, ""),
        ("3", None, "no option fits the target '3'"),
        ("dog", 1, ""),
        ("cat", None, "no option fits the target 'cat'"),
        ("C", None, "several options fit the target 'C'"),
    ],
)
def test_the_right_option_among_those_of_the_document(tmp_path, target, index, doubt):
    """By number, by letter or by text, where two readings agree; `cat` is two of them, and `C` the first besides the third."""
    for choices in (["C", "dog", "x"], ["cat", "dog", "cat"]):
        if (target == "C") == (choices[0] == "C"):
            found = one(tmp_path, lmms_row(0, "?", target, [["1.5", "False"]] * 3, doc={"choices": choices}))
            assert (found.choices, found.answer_index, found.doubt) == (tuple(choices), index, doubt)
    assert one(tmp_path, lmms_row(0, "?", "C", [["1.5", "False"]] * 3, doc={"choices": ["a", "b"]})).choices == ("A", "B", "C")


def test_options_are_labelled_by_letters_and_then_by_numbers(tmp_path):
    for target, index in (("Z", 25), ("27", 27), ("29", 29), ("30", None)):
        found = one(tmp_path, lmms_row(0, "?", target, [["1.5", "False"]] * 30))
        assert (found.choices[25:], found.answer_index) == (("Z", "27", "28", "29", "30"), index), "a number is an index"
    found = one(tmp_path, lmms_row(0, "?", "A", [["1.5", "False"]], resps=[[["1.5", "False"]]]))
    assert isinstance(found, Fault) and (found.reason, found.what) == ("not one number per option", "1 numbers")


def test_lettered_options_of_a_question_but_not_of_an_export_of_ours(tmp_path):
    row = lmms_row(0, "What?\nA. a cat\nB. a dog", "B", "b")
    assert (one(tmp_path, row).choices, one(tmp_path, row).answer_index) == (("a cat", "a dog"), 1)
    assert one(tmp_path, {**row, "sample_id": "s"}).choices == ()
    assert one(tmp_path, {**row, "doc": {"options": ["x", "y"]}}).choices == ("x", "y")


def test_what_a_file_is_called(tmp_path):
    assert names(lmms(tmp_path, lmms_row(0, "?", "a", "b"), task="mme_test")) == {
        ("my__model", "mme_test"),
        ("20260301_101112", "mme_test"),
    }
    assert names(leh(tmp_path, leh_open(0, "?", "a", "a"))) is None
    assert names(lines(tmp_path / "x" / "least.jsonl", {"doc_id": 0, "filtered_resps": []})) == {("x", "least")}


def test_a_log_that_lmms_eval_wrote(tmp_path):
    trackers = pytest.importorskip(
        "lmms_eval.loggers.evaluation_tracker", reason="lmms-eval is not installed; pip install --no-deps lmms-eval"
    )
    tracker = trackers.EvaluationTracker(output_path=str(tmp_path))
    tracker.general_config_tracker.model_name_sanitized = "m"

    def sample(i, resps, filtered):
        row = {"doc_id": i, "doc": {"q": 1}, "target": "a", "arguments": [f"Question {i}?", {}], "resps": resps, "filtered_resps": filtered}
        return {**row, "token_counts": [None], "doc_hash": "d", "acc": 1.0}

    texts = [sample(0, [["yes"]], ["yes"]), sample(1, [["Yes.", "No."]], [["Yes.", "No."]]), sample(2, [["It is yes."]], ["yes"])]
    losses = [sample(0, [[(2.5, False)], [(0.5, True)]], [(2.5, False), (0.5, True)])]
    tracker.save_results_aggregated({}, {"t": texts, "l": losses}, "20260301_101112")
    tracker.save_results_samples("t", texts)
    tracker.save_results_samples("l", [{**row, "target": 1} for row in losses])
    numbers, said = find_parts(tmp_path)
    assert said.format == "lmms-eval" and said.has("m", "t") and said.has("20260301_101112", "t")
    assert [[d["text"] for d in r.draws] for r in said.read(ReadOptions())] == [["yes"], ["Yes.", "No."], ["It is yes."]]
    (found,) = numbers.read(ReadOptions())
    assert found.draws == [{"option_logits": [-2.5, -0.5], "verdict": 1.0}] and found.answer_index == 1 and found.prompt == "Question 0?"
