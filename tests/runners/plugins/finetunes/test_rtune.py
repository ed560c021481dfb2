"""R-tuning on a small model: who is asked what, whose answers are replaced, and that nothing is asked twice."""

import csv
import io
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.answers import Store
from qualm.runners.data.dataset import DatasetFolder, Variant
from qualm.runners.data.splits import SplitRule
from qualm.runners.inference.run import answer_tables
from qualm.runners.plugins.finetunes.rtune import REFUSALS, choose_abstention, rtune
from qualm.runners.plugins.judges.rules import rules
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from qualm.runners.runtime.code_digest import find_engine
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.training.examples import read_rows
from qualm.runners.training.opinions import answer_entropy, sampled_answers
from tests.support.models.tiny_models import tiny_llava
from tests.support.projects.tiny_tuning import BASE, LORA, REFUSAL, Tuning, bare_stage
from tests.support.servers.small_server import serving

RTUNE = {"base": "base", "train": ["pairs"], "tune": LORA, "batch": 6, "steps": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture
def project(tmp_path, folder):
    return Tuning(tmp_path, folder)


def make(project, prompts=None, **changes):
    """The recipe, made in the project's folder, and the stage with its counters."""

    stage = bare_stage()
    stage = replace(stage, params={**stage.params, **({"prompts": prompts} if prompts else {})})
    places = {"pairs": Path("results/t/data/pairs")}
    context = FinetuneContext(places, 7, {"base": BASE}, {"base": Path("registry/data/tiny")}, stage)
    with chdir(project.folder):
        return rtune(context, **{**RTUNE, **changes}), stage


def examples(recipe):
    return recipe.share.mixture.pools[""]


@pytest.mark.slow
def test_rows_that_follow_on_are_not_asked_by_themselves(project):
    path = project.folder / "results/t/data/pairs/samples.parquet"
    rows = read_table(path, SAMPLES).to_pylist()
    for row in rows[:2]:
        row["meta"] = [("history", '[["What is it?", "A cube."]]')]
    write_table(path, rows, SAMPLES)
    recipe, stage = make(project)
    assert stage.counters["dropped (follows on earlier turns)"] == 2
    assert len(examples(recipe)) == 25 - stage.counters["dropped (the judge cannot tell)"]


def test_unknown_replaces_what_the_base_model_gets_wrong(project):
    recipe, stage = make(project, refusals=["no idea", "cannot say"])
    by_row = {e.row: e for e in examples(recipe)}
    assert stage.counters["answers computed"] == 28  # the row without a reference is asked too
    rated = stage.counters["known"] + stage.counters["unknown"]
    assert len(by_row) == rated == 27 - stage.counters["dropped (the judge cannot tell)"] < 27
    data = recipe.share.encoder.datasets["pairs"]
    table = data.table.select(["references", "answerable", "choices"]).to_pylist()

    with chdir(project.folder):
        model = recipe.share.encoder.model
        own = find_engine("qualm.runners.plugins.models.hf_vlm")
        assert len(Store(Path(Settings().store), model.digest, own.identity, libraries=own.libraries)) == 28
    for row, example in by_row.items():
        if not table[row]["answerable"]:
            assert example.answer == REFUSAL
        elif not table[row]["choices"]:
            assert example.answer in ("no idea", "cannot say", table[row]["references"][0])
    replaced = sum(e.answer in ("no idea", "cannot say") for e in by_row.values())
    assert 0 < replaced <= stage.counters["unknown"]


def test_what_is_wrong_is_the_judge_s_word(project):

    recipe, _ = make(project, refusals=["no idea"])
    with chdir(project.folder):
        data = DatasetFolder("pairs", Path("results/t/data/pairs"), SplitRule(("train",)))
        model = hf_vlm(ModelContext("base", Path("registry/data/tiny")))
        stage = bare_stage()
        (table,) = answer_tables(model, "qualm.runners.plugins.models.hf_vlm", [data], [Variant("clean")], frozenset({"text"}), stage)
    assert stage.counters["answers computed"] == 0  # the recipe's answers were kept
    said = table["text"].to_pylist()
    taught = {example.row: example.answer for example in examples(recipe)}
    expected = {}
    for row, facts in enumerate(data.table.to_pylist()):
        right = facts["answer_index"]
        references = facts["references"] if right is None else [facts["choices"][right], "ABCD"[right]]
        (judgement,) = rules([facts["question"]], [references if facts["answerable"] else []], [said[row]], [facts["choices"]])
        if references and judgement.rating is not None:
            own = "ABCD"[right] if right is not None else references[0]
            expected[row] = "no idea" if facts["answerable"] and judgement.rating == 0 else own
    assert taught == expected and {"no idea", REFUSAL} < set(taught.values())


def test_base_is_asked_and_trained_with_the_prompt_of_inference(project):
    prompt = {"template": "What color is it ? {question}\n{options}\n{instruction}"}
    recipe, _ = make(project, {"pairs": prompt}, refusals=["no idea"])
    with chdir(project.folder):
        data = DatasetFolder("pairs", Path("results/t/data/pairs"), SplitRule(("train",)))
        model = hf_vlm(ModelContext("base", Path("registry/data/tiny")))
        stage = bare_stage()
        stage = replace(stage, params={**stage.params, "prompt": prompt})
        answer_tables(model, "qualm.runners.plugins.models.hf_vlm", [data], [Variant("clean")], frozenset({"text"}), stage)
    assert stage.counters["answers computed"] == 0, "inference with this prompt finds the answers of the recipe"
    texts = [example.conversation[-1]["content"][-1]["text"] for example in examples(recipe)]
    assert len(texts) > 0 and all(text.startswith("What color is it ? What color") for text in texts)


def test_unsure_asks_back(project):
    recipe, stage = make(project, mode="unsure", certainty="certain ?", sure="yes", unsure="no")
    pool = examples(recipe)
    assert len(pool) == 2 * (27 - stage.counters["dropped (the judge cannot tell)"]) > 0
    for own, back in zip(pool[::2], pool[1::2], strict=True):
        assert back.conversation[: len(own.conversation)] == own.conversation
        assert back.conversation[-2]["content"][0]["text"] == own.answer
        assert back.conversation[-1] == {"role": "user", "content": [{"type": "text", "text": "certain ?"}]}
    replies = [e.answer for e in pool[1::2]]
    assert replies.count("yes") == stage.counters["known"] and replies.count("no") == stage.counters["unknown"]


def test_uncertain_halves_by_entropy_and_resumes(project):
    recipe, stage = make(project, mode="uncertain", sure="yes", unsure="no")
    replies = [e.answer for e in examples(recipe)[1::2]]
    assert (replies.count("yes"), replies.count("no")) == (12, 12)
    assert stage.counters["draws computed"] == 24 * 5 and stage.counters["dropped (has options)"] == 3
    again, stage = make(project, mode="uncertain", sure="yes", unsure="no")
    assert stage.counters["draws computed"] == 0
    assert [e.answer for e in examples(again)[1::2]] == replies


def test_drawn_answers_do_not_depend_on_the_batch(project, tmp_path, folder):

    found = []
    for size in (1, 5):
        other = Tuning(tmp_path / str(size), folder)
        stage = bare_stage()
        stage.settings = replace(stage.settings, batch_size=size)
        with chdir(other.folder):
            data = DatasetFolder("pairs", Path("results/t/data/pairs"), SplitRule(("train",)))
            context = FinetuneContext({}, 7, {"base": BASE}, {"base": Path("registry/data/tiny")}, stage)
            found.append(sampled_answers(context, "base", data, read_rows(data, context.count)[:4], 3, 0.7))
    assert found[0] == found[1] and len(found[0]) == 4 and all(len(texts) == 3 for texts in found[0])


def test_entropy():
    assert answer_entropy(["a cube", "Cube.", "cube"]) == 0
    assert answer_entropy(["red", "blue", "red", "blue"]) == pytest.approx(0.693147, abs=1e-6)


def test_refusals_are_drawn_by_the_sample():
    class Row:
        sample_id = "s1"

    assert choose_abstention(Row, REFUSALS) == choose_abstention(Row, REFUSALS)
    assert {choose_abstention(type("R", (), {"sample_id": str(i)}), REFUSALS) for i in range(40)} == set(REFUSALS)


@pytest.mark.slow
def test_as_a_stage(project):
    project.stage("rtune", RTUNE)
    stage = project.run()
    assert stage.counters["answers computed"] == 28 and stage.counters["steps"] == 4
    assert len(list(csv.DictReader(io.StringIO(project.log())))) == 4
    assert (project.model() / "adapter_model.safetensors").is_file()


def test_outside_of_a_stage(project):

    context = FinetuneContext({"pairs": project.folder / "results/t/data/pairs"}, 7, {"base": BASE}, {"base": Path("registry/data/tiny")})
    with chdir(project.folder), pytest.raises(FinetuneError, match="within a stage"):
        rtune(context, **RTUNE)


@pytest.mark.slow
def test_a_language_model_may_be_the_judge(project):
    def script(body, nth):
        text = body["messages"][0]["content"]
        return "Rating: 3" if "\nExperts: " in text else "Rating: 0"

    with serving(script) as server:
        by = {"plugin": "openai", "args": {"model": "m", "base_url": server.url}}
        lave = {"plugin": "lave", "args": {"by": by}}
        _, stage = make(project, judge=lave)
        assert stage.counters["replies computed"] == len(server.bodies) > 0
        _, rules_stage = make(project)
        assert stage.counters["known"] > rules_stage.counters["known"]
        server.script = lambda *_: (500, "broken", {})
        lave["args"]["max_new_tokens"] = 99
        with pytest.raises(FinetuneError, match=r"judge lave: openai \(m at http.*status 500: broken"):
            make(project, judge=lave)


def training_rows(project):
    return DatasetFolder("pairs", project.folder / "results/t/data/pairs", SplitRule(("train",)))


def test_answers_are_verified_only_where_the_base_model_was_right(project, monkeypatch):
    """A row whose answer is replaced by a refusal must not be taught to be right as well."""
    rows = [row for row in read_rows(training_rows(project), lambda **_: None) if row.pair_id]
    right = sorted({row.pair_id for row in rows if row.answerable})[:3]
    known = {("pairs", row.sample_id): row.answerable and row.pair_id in right for row in rows}
    monkeypatch.setattr("qualm.runners.plugins.finetunes.rtune._known_by_judge", lambda *_: known)
    recipe, _ = make(project, verify=0.5)
    asked = recipe.share.mixture.pools["verify"]
    assert len(asked) == 4 * len(right)
    assert {e.row for e in asked} == {row.row for row in rows if row.pair_id in right}


def test_nothing_to_verify_is_an_error(project, monkeypatch):
    rows = read_rows(training_rows(project), lambda **_: None)
    monkeypatch.setattr(
        "qualm.runners.plugins.finetunes.rtune._known_by_judge", lambda *_: {("pairs", row.sample_id): False for row in rows}
    )
    with pytest.raises(FinetuneError, match="verify: expected contrastive pairs with two different answers in pairs, found none"):
        make(project, verify=0.5)
