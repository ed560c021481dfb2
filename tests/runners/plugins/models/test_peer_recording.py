"""Other tools' logs as a model: what is matched, what is left out, and that nothing is guessed."""

import math

import pyarrow as pa
import pytest

from qualm.registry.sample import GENERATIONS, SAMPLES
from qualm.runners.contracts.models import ModelContext, ModelError, Recording
from qualm.runners.plugins.models import _peer_recording
from qualm.runners.plugins.models.recorded import recorded
from tests.support.data.recordings import CAPITALS, inspect_eval, inspect_sample, leh, leh_choice, leh_open, lmms, lmms_row, tsv, vek_row


@pytest.fixture(autouse=True, params=[8192, 1, 2])
def block(request, monkeypatch):
    """However many answers become columns together."""
    monkeypatch.setattr(_peer_recording, "_BLOCK", request.param)


def samples(*rows, source="test"):
    made = [{"source": source, "choices": [], **row} for row in rows]
    return pa.Table.from_pylist(made, schema=SAMPLES)


def ask(i, question, **more):
    return {"sample_id": str(i), "question": question, **more}


def look(folder, table, dataset="capitals", **args):
    model = recorded(ModelContext("m", folder=folder), source="elsewhere", **args)
    assert isinstance(model, Recording)
    found = model.lookup(dataset, table)
    assert found.schema.equals(GENERATIONS)
    return found.to_pylist(), [(f.where.rpartition(":")[2], f.reason) for f in model.left_out]


PERU, WHICH = ask(0, "Capital of Peru?"), ask(1, "Which?", choices=["x", "y"], answer_index=1)


def test_draws_and_logits_in_the_order_of_the_samples(tmp_path):
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "Lima", "Cusco"), leh_choice(1, "Which?", ["x", "y"], 1, [-1, -2]))
    rows, left = look(tmp_path, samples(WHICH, PERU))
    assert [(r["sample_id"], r["draw"], r["text"], r["option_logits"]) for r in rows] == [
        ("1", 0, None, [-1, -2]),
        ("0", 0, "Lima", None),
        ("0", 1, "Cusco", None),
    ]
    assert left == [] and all(r["variant"] == "clean" and r["token_logprobs"] is None for r in rows)


def test_every_format_answers_the_same_question(tmp_path):
    leh(tmp_path / "1", leh_open(0, "Capital of Peru?", "Lima", "Lima"))
    lmms(tmp_path / "2", lmms_row(0, "Capital of Peru?", "Lima", "Lima"))
    tsv(tmp_path / "3" / "m_capitals.tsv", [{"index": 0, "question": "Capital of Peru?", "answer": "Lima", "prediction": "Lima"}])
    inspect_eval(tmp_path / "4" / "x.eval", inspect_sample(0, "Capital of Peru?", "Lima", "Lima"))
    for folder in "1234":
        rows, left = look(tmp_path / folder, samples(PERU))
        assert [(r["sample_id"], r["text"]) for r in rows] == [("0", "Lima")] and not left


def test_by_question(tmp_path):
    leh(tmp_path, leh_open(5, "Capital of  Peru?", "Lima", "Lima"), leh_open(6, "Twice?", "a", "a"))
    table = samples(ask("a", "Capital of Peru?"), ask("b", "Twice?"), ask("c", "Twice?"))
    rows, left = look(tmp_path, table, match="question")
    assert [r["sample_id"] for r in rows] == ["a"]
    assert left == [("2", "several samples have this question"), *[(left[1][0], "sample without an answer")] * 2]


def test_prompts_of_the_samples_alone_and_repetitions_that_do_no_harm(tmp_path):
    lima = leh_open(0, "Capital of Peru?", "Lima", "Lima")
    leh(tmp_path, leh_open(7, "Capital of Chad?", "a", "a"), lima, lima)
    model = recorded(ModelContext("m", folder=tmp_path), source="elsewhere")
    assert list(model.prompts("capitals", samples(PERU))) == ["0"]
    model.lookup("capitals", samples(PERU))
    assert [(fault.reason, fault.harmless) for fault in model.left_out][-1] == ("says the same again", True)


def test_everything_that_does_not_fit_is_named_with_its_line(tmp_path):
    other = leh_choice(1, "Which?", ["x", "y", "z"], 1, [-1, -2, -3])
    swapped = leh_choice(1, "Which?", ["y", "x"], 0, [-1, -2])
    wrong = leh_choice(1, "Which?", ["x", "y"], 0, [-1, -2])
    first = [leh_open(0, "Capital of Peru?", "Lima", "Lima"), "{", leh_open(9, "?", "a", "a"), leh_open(2, "Capital of Chile?", "a", "a")]
    leh(tmp_path, *first, other, swapped, wrong)
    rows, left = look(tmp_path, samples(PERU, WHICH, ask(2, "Capital of Norway?")))
    assert [r["sample_id"] for r in rows] == ["0"]
    assert left[:6] == [
        ("2", "not JSON"),
        ("3", "not a sample of the dataset"),
        ("4", "another question than the sample's"),
        ("5", "other number of options"),
        ("6", "other options than the sample's"),
        ("7", "another option is right there"),
    ]
    assert [reason for _, reason in left[6:]] == ["sample without an answer"] * 2
    rows, left = look(tmp_path, samples(PERU, ask(2, "Capital of Norway?")), check_questions=False)
    assert [r["sample_id"] for r in rows] == ["0", "2"]


def test_a_question_without_a_prompt_is_held_to_the_sample_s(tmp_path):
    other = {"question": "Capital of Chile?", "answer": "a", "prediction": "a"}
    tsv(
        tmp_path / "m_capitals.tsv",
        [{"index": 0, "question": PERU["question"], "answer": "Lima", "prediction": "Lima"}, {"index": 1, **other}],
    )
    rows, left = look(tmp_path, samples(PERU, ask(1, "Capital of Norway?")))
    assert [r["sample_id"] for r in rows] == ["0"] and left[0][1] == "another question than the sample's"


def test_of_a_recording_that_fits_nowhere_five_reasons_are_told(tmp_path):
    leh(tmp_path, *(leh_open(i, "?", "a", "a") for i in range(10, 17)))
    with pytest.raises(ModelError) as refused:
        look(tmp_path, samples(PERU))
    assert str(refused.value).count("not a sample of the dataset") == 5


def test_equal_rows_count_once_and_rows_that_contradict_each_other_not_at_all(tmp_path):
    same, changed = leh_open(0, "Capital of Peru?", "Lima", "Lima"), leh_open(1, "Which?", "x", "x")
    leh(tmp_path, same, same, changed, {**changed, "resps": [["y"]]})
    rows, left = look(tmp_path, samples(PERU, ask(1, "Which?")))
    assert [r["sample_id"] for r in rows] == ["0"]
    assert left[0] == ("2", "says the same again") and left[1] == ("4", "contradicts another row")


def test_epochs_in_any_order_are_draws(tmp_path):
    found = [inspect_sample("a", "?", "x", text, epoch=e) for e, text in ((3, "c"), (1, "a"), (2, "b"))]
    inspect_eval(tmp_path / "x.eval", *found)
    rows, _ = look(tmp_path, samples(ask("a", "?")))
    assert [(r["draw"], r["text"]) for r in rows] == [(0, "a"), (1, "b"), (2, "c")]


def test_which_file_is_meant(tmp_path):
    for task in CAPITALS:
        leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", task), task=task)
    table = samples(PERU)
    assert look(tmp_path, table, dataset="Oslo")[0][0]["text"] == "Oslo"
    assert look(tmp_path, table, dataset="d", tasks={"d": "Rome"})[0][0]["text"] == "Rome"
    assert look(tmp_path, samples(PERU, source="recorded_samples/Lima"), dataset="Oslo")[0][0]["text"] == "Lima"
    with pytest.raises(ModelError, match="holds several tasks"):
        look(tmp_path, table, dataset="d")
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "later"), task="Oslo", date="2026-04-01T10-11-12.3")
    with pytest.raises(ModelError, match=r"task 'Oslo' lies there 2 times.*say which with `run:`"):
        look(tmp_path, table, dataset="Oslo")
    assert look(tmp_path, table, dataset="Oslo", run="2026-04-01T10-11-12.3")[0][0]["text"] == "later"


def test_a_recording_that_fits_nowhere(tmp_path):
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "Lima"))
    with pytest.raises(
        ModelError, match=r"(?s)not one answer to dataset 'capitals'.*'peru'.*match: question.*jsonl:1: not a sample of the dataset: 0"
    ):
        look(tmp_path, samples(ask("peru", "Capital of Peru?")))
    tsv(tmp_path / "v" / "m_d.tsv", [vek_row(1, "Failed to obtain answer")])
    with pytest.raises(ModelError, match="an answer that VLMEvalKit could not get"):
        look(tmp_path / "v", samples(ask(1, "What is in picture 1?")))


@pytest.mark.parametrize("logprobs", [[5.0], [float("inf")], [float("nan")], [-1, None], ["x"], [-1, 0.2]])
def test_impossible_numbers_are_undefined_and_counted_and_the_answer_stays(tmp_path, logprobs):
    good = inspect_sample("a", "What?", "x", "x", logprobs=[-0.5, -0.25])
    inspect_eval(tmp_path / "x.eval", good, inspect_sample("b", "Who?", "y", "y", logprobs=logprobs))
    rows, left = look(tmp_path, samples({"sample_id": "a", "question": "What?"}, {"sample_id": "b", "question": "Who?"}))
    assert [(r["text"], r["token_logprobs"]) for r in rows] == [("x", [-0.5, -0.25]), ("y", None)]
    assert [reason for _, reason in left] == ["impossible numbers, undefined here"]


@pytest.mark.parametrize("numbers", [[-1, 5.0], [float("-inf"), 5.0], [float("inf"), -1]])
def test_impossible_likelihoods_of_options_are_undefined_and_counted(tmp_path, numbers):
    leh(tmp_path, leh_choice(1, "Which?", ["x", "y"], 1, numbers), leh_choice(2, "Which 2?", ["x", "y"], 1, [-1, -2]))
    rows, left = look(tmp_path, samples(WHICH, {**WHICH, "sample_id": "2", "question": "Which 2?"}))
    assert [r["option_logits"] for r in rows] == [None, [-1, -2]] and [reason for _, reason in left] == [
        "impossible numbers, undefined here"
    ]


@pytest.mark.parametrize(("numbers", "probabilities"), [([-1, float("-inf")], [1, 0]), ([float("-inf"), -3e4], [0, 1])])
def test_an_option_at_minus_infinity_is_stored_as_a_finite_number_with_probability_0(tmp_path, numbers, probabilities):
    leh(tmp_path, leh_choice(1, "Which?", ["x", "y"], 1, numbers))
    (row,), left = look(tmp_path, samples(WHICH))
    logits = row["option_logits"]
    assert all(math.isfinite(v) for v in logits) and [math.exp(v - max(logits)) for v in logits] == probabilities
    assert max(logits) == max(numbers) and left == []


def test_impossible_signals_of_an_export_of_ours(tmp_path):
    kept = {"signals": [{"p_yes": 148.0, "token_logprobs": [-1.0], "token_entropies": [-2226.0], "p_true": 0.5}]}
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "Lima", qualm=kept))
    (row,), left = look(tmp_path, samples(PERU))
    assert (row["p_yes"], row["token_entropies"], row["p_true"], row["token_logprobs"]) == (None, None, 0.5, [-1.0]) and len(left) == 2


def test_thinking_is_taken_out_of_recorded_texts(tmp_path):
    rows = [leh_open(0, "Capital of Peru?", "Lima", "<think>Peru... Lima.</think>\nLima", "<think>Peru...", "Cusco")]
    leh(tmp_path, *rows)
    found, _ = look(tmp_path, samples(PERU), thinking=True)
    assert [(r["text"], r["thinking"], r["no_answer"]) for r in found] == [
        ("Lima", "Peru... Lima.", None),
        (None, "Peru...", "ended while thinking"),
        ("Cusco", None, None),
    ]
    found, _ = look(tmp_path, samples(PERU))
    assert found[0]["text"].startswith("<think>") and found[0]["thinking"] is None
    found, _ = look(tmp_path, samples(PERU), thinking={"tags": ["[T]", "[/T]"]})
    assert found[0]["text"].startswith("<think>")


def test_numbers_of_an_answer_with_thinking_are_kept_but_those_of_its_tokens(tmp_path):
    """Which tokens were thinking nobody knows, so what is of single tokens is not known of the answer; what is of the whole is."""
    logprobs = ("token_logprobs", "logprobs_without_image", "logprobs_without_question", "logprobs_without_both")
    of_tokens = {name: [-1.0, -0.5] for name in logprobs}
    of_tokens |= {name: [1.0, 0.5] for name in ("token_entropies", "image_divergence", "uniform_divergence")}
    of_the_answer = {"p_true": 0.5, "p_yes": 0.75}
    kept = {"signals": [of_tokens | of_the_answer]}
    leh(tmp_path, leh_open(0, "Capital of Peru?", "Lima", "<think>Peru... Lima.</think>\nLima", qualm=kept))
    (row,), left = look(tmp_path, samples(PERU), thinking=True)
    assert (row["text"], row["thinking"]) == ("Lima", "Peru... Lima.") and not left
    assert {name: row[name] for name in of_the_answer} == of_the_answer
    assert {name for name in of_tokens if row[name] is not None} == set()
    (row,), _ = look(tmp_path, samples(PERU))
    assert {name: row[name] for name in of_tokens} == of_tokens, "all of them are of the answer where nothing is taken out"


def test_equal_answers_are_equal_however_numbers_are_written():
    digest = _peer_recording._digest
    assert digest({"text": "a", "p_true": 1}) == digest({"p_true": 1.0, "text": "a"})
    assert digest({"option_logits": [0, -1.5]}) == digest({"option_logits": [-0.0, -1.5]})
    assert len({digest({"text": "1"}), digest({"p_true": 1}), digest({"text": "1", "p_true": 1}), digest({"option_logits": [1]})}) == 4


def test_draws_of_many_rows_in_any_order(tmp_path):
    answers = [leh_open(i, f"Number {i}?", str(i), *(f"{i}.{k}" for k in range(3))) for i in (4, 1, 3, 0, 2)]
    leh(tmp_path, *answers, answers[1])
    rows, left = look(tmp_path, samples(*(ask(i, f"Number {i}?") for i in range(6))))
    assert [(r["sample_id"], r["draw"], r["text"]) for r in rows] == [(str(i), k, f"{i}.{k}") for i in range(5) for k in range(3)]
    assert left == [*[("6", "says the same again")] * 3, (left[3][0], "sample without an answer")]
