"""HELM's scenario states, request by request."""

import json

import pytest

from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.helm import names, read
from qualm.registry.recordings.parts import find_parts
from qualm.registry.recordings.record import ReadOptions, RecordingError
from tests.support.data.recordings import helm, helm_instance, helm_option, helm_state

PERU = helm_instance("id0", "Capital of Peru?", [("Lima", True), ("Cusco", False), ("Lima city", True)])
PETS = helm_instance("id1", "Which is small?", [("a cat", True), ("a big dog", False)], sub_split="animals", extra_data={"level": 2})
ANY = ReadOptions()


def all_of(tmp_path, *states, how=ANY):
    return list(read(helm(tmp_path, *states), how))


def test_runs_and_tasks(tmp_path):
    path = helm(tmp_path, helm_state(PERU, "Lima"))
    folder = "capitals:subject=peru,model=openai_gpt"
    runs = ("v1", "openai/gpt", "openai/gpt-2026", "openai_gpt")
    assert names(path) == {(run, task) for run in runs for task in (folder, "capitals:subject=peru")}
    assert [part.format for part in find_parts(tmp_path)] == ["helm"]
    path.write_text('{"request_states": []}')
    assert names(path) is None and names(tmp_path / "other.json") is None


def test_generated_text(tmp_path):
    (found,) = all_of(tmp_path, helm_state(PERU, "Lima it is", logprobs=[-0.5, -0.25, -1.0]))
    assert (found.id, found.question, found.prompt, found.split) == ("id0", "Capital of Peru?", "Question: Capital of Peru?", "test")
    assert (found.references, found.choices) == (("Lima", "Lima city"), ())
    assert found.draws == [{"text": "Lima it is", "token_logprobs": [-0.5, -0.25, -1.0]}] and found.draw == 0


@pytest.mark.parametrize(
    ("asked", "prompt"),
    [
        ({"prompt": "", "messages": [{"role": "user", "content": "Capital"}, {"content": "of Peru?"}]}, "Capital\nof Peru?"),
        ({"multimodal_prompt": {"media_objects": [{"text": "Capital "}, {"location": "a.png"}, {"text": "of Peru?"}]}}, "Capital of Peru?"),
    ],
)
def test_prompts_in_their_forms(tmp_path, asked, prompt):
    (found,) = all_of(tmp_path, helm_state(PERU, "Lima") | {"request": asked})
    assert found.prompt == prompt


def test_zeros_for_every_token_are_no_log_probabilities(tmp_path):
    (found,) = all_of(tmp_path, helm_state(PERU, "Lima it", logprobs=[0, 0.0]))
    assert found.draws == [{"text": "Lima it"}]
    (found,) = all_of(tmp_path, helm_state(PERU, "Lima it", logprobs=[0, -0.5]))
    assert found.draws == [{"text": "Lima it", "token_logprobs": [0, -0.5]}]


def test_completions_and_trials_are_draws(tmp_path):
    found = all_of(tmp_path, helm_state(PERU, "Lima", "Cusco"), helm_state(PERU, "Lima", "Lima", trial=1), helm_state(PERU, "x", trial=2))
    assert [(record.draw, [d["text"] for d in record.draws]) for record in found] == [
        (0, ["Lima", "Cusco"]),
        (2, ["Lima", "Lima"]),
        (2, ["x"]),
    ]


def test_lettered_options(tmp_path):
    (found,) = all_of(tmp_path, helm_state(PETS, " A", mapping={"A": "a cat", "B": "a big dog"}))
    assert (found.choices, found.answer_index, found.references) == (("a cat", "a big dog"), 0, ())
    assert (found.category, found.meta, found.draws) == ("animals", {"level": "2"}, [{"text": " A"}])
    for references, doubt in (([("a", True), ("b", True)], "2 options are right"), ([("a", False), ("b", False)], "0 options are right")):
        (found,) = all_of(tmp_path, helm_state(helm_instance("id", "?", references), "A", mapping={"A": "a", "B": "b"}))
        assert (found.answer_index, found.doubt) == (None, doubt)


def test_options_scored_by_themselves(tmp_path):
    prompt = [("Which", -3.0), (" is", -1.0), (":", -0.5)]
    first = helm_option(PETS, 0, [*prompt, (" a", -0.5), (" cat", -0.25)])
    second = helm_option(PETS, 1, [*prompt, (" a", -1.0), (" big", -2.0), (" dog", -0.125)])
    (fault, found) = all_of(tmp_path, {**first, "request_mode": "calibration"}, first, second)
    assert fault.harmless and fault.reason == "a request for calibration"
    assert (found.choices, found.answer_index, found.draws) == (("a cat", "a big dog"), 0, [{"option_logits": [-0.75, -3.125]}])


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([(" a cat", 0.0)], "no log-probabilities: 0 for every token of an option"),
        ([("is a", -1.0), (" cat", -1.0)], "the last tokens are not the option"),
        ([], "the last tokens are not the option"),
    ],
)
def test_options_whose_numbers_cannot_be_known(tmp_path, tokens, reason):
    (found,) = all_of(tmp_path, helm_option(PETS, 0, tokens), helm_option(PETS, 1, [(" a big dog", -1.0)]))
    assert isinstance(found, Fault) and found.reason == reason
    (found,) = all_of(tmp_path, helm_option(PETS, 0, tokens))
    assert found.reason == "not one request per option"
    (found,) = all_of(tmp_path, helm_option(helm_instance("id", "?", [("a cat", True)]), 0, [(" a cat", -1.0)]))
    assert (found.reason, found.what) == ("not one request per option", "1 for 1 options")


def test_requests_for_one_question_by_trial_and_perturbation(tmp_path):
    """A token of probability 1 has the log-probability 0; the options may come in any order."""

    def both(instance, **more):
        return [helm_option(instance, i, tokens, **more) for i, tokens in ((1, [(" a big dog", -1.0)]), (0, [(" a", 0.0), (" cat", -0.5)]))]

    typos = {**PETS, "perturbation": {"name": "typos"}}
    found = all_of(tmp_path, *both(PETS), *both(PETS, train_trial_index=1), *both(typos))
    assert [(record.draw, record.draws) for record in found[:2]] == [(trial, [{"option_logits": [-0.5, -1.0]}]) for trial in (0, 1)]
    assert [(fault.reason, fault.what) for fault in found[2:]] == [("row of another perturbation", "typos")] * 2


def test_perturbed_rows_are_taken_only_where_they_are_meant(tmp_path):
    states = [helm_state(PERU, "Lima"), helm_state({**PERU, "perturbation": {"name": "typos", "robustness": True}}, "Cusco")]
    first, other = all_of(tmp_path, *states)
    assert first.draws == [{"text": "Lima"}] and other.harmless and other.what == "typos"
    _, second = all_of(tmp_path, *states, how=ReadOptions(filter="typos"))
    assert second.draws == [{"text": "Cusco"}]


def test_pictures_are_paths(tmp_path):
    seen = helm_instance("id2", "What is it?", [("a cat", True)], image="benchmark_output/scenarios/x/1.png")
    (found,) = all_of(tmp_path, helm_state(seen, "a cat"))
    assert (found.question, found.n_pictures, found.images) == ("What is it?", 1, ()) and "paths of images" in found.lacking


def test_thinking_and_fields(tmp_path):
    state = helm_state(PETS, "a cat")
    state["result"]["completions"][0]["thinking"] = {"text": "hm"}
    (found,) = all_of(tmp_path, state, how=ReadOptions({"id": "level", "category": "level"}))
    assert (found.id, found.category, found.draws) == ("2", "2", [{"text": "a cat", "thinking": "hm"}])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"result": {"success": False, "error": "quota", "completions": []}}, "ended in an error"),
        ({"result": {"success": True, "completions": []}}, "no response"),
        ({"result": None}, "no response: the run was not executed"),
        ({"instance": {**PERU, "id": None}}, "no id"),
        ({"instance": "x"}, "not a row of this format"),
        ({"train_trial_index": "x"}, "no number of a training trial"),
        ({"train_trial_index": -1}, "no number of a training trial"),
    ],
)
def test_faults(tmp_path, change, reason):
    bad = {**helm_state(PERU, "Lima"), **change}
    fault, good, again = all_of(tmp_path, bad, helm_state(PETS, "a cat"), bad)
    assert isinstance(fault, Fault) and fault.reason == reason and fault.where.endswith("/scenario_state.json request_states[0]")
    assert again.where == fault.where.replace("[0]", "[2]")
    assert good.id == "id1"


def test_a_key_that_comes_twice(tmp_path):
    """As where a part between two records is lost."""
    path = helm(tmp_path, helm_state(PERU, "Lima"))
    path.write_text(path.read_text().replace('"train_trial_index":', '"train_trial_index": "x", "train_trial_index":'))
    with pytest.raises(RecordingError, match=r"the key 'train_trial_index' occurs twice"):
        list(read(path, ReadOptions()))


def test_a_cut_file(tmp_path):
    path = helm(tmp_path, helm_state(PERU, "Lima"))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(RecordingError, match=r"scenario_state.json: line 57: expected a whole JSON object"):
        list(read(path, ReadOptions()))
    assert json.loads(helm(tmp_path).read_text())["request_states"] == [] and list(read(path, ReadOptions())) == []
