"""What a question's page says is what the tables say."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from qualm.compiler.viewing.answers import AnswerTable
from qualm.compiler.viewing.details import MAX_TEXT, _answer, changed_words, details
from qualm.compiler.viewing.site import Site
from qualm.runners.data.dataset import DatasetFolder
from qualm.runners.prompts.question import render_question
from qualm.runners.results.results import Results
from tests.support.projects.viewed_project import ASKED


@pytest.fixture(scope="module")
def known(site: Site, answers: AnswerTable) -> list[dict[str, Any]]:
    return details(answers, site.parts["small"].model_inputs, answers.samples)


def test_answers_with_draws_tokens_and_judges(results: Results, known: list[dict[str, Any]]) -> None:
    assert sum(len(of["answers"]) for of in known) == 288
    generations = results.generations("base", "scenes")
    judged = pl.read_parquet(results.root / results.inputs["judgements"])
    sampled = [one for one in known if one["dataset"] == "scenes"]
    assert sampled
    for of in sampled:
        (clean,) = (a for a in of["answers"] if (a["model"], a["variant"]) == ("base", "clean"))
        rows = generations.filter(sample_id=of["id"], variant="clean")
        greedy = rows.filter(draw=0).row(0, named=True)
        assert clean["text"][:MAX_TEXT] == greedy["text"][:MAX_TEXT] and clean["input_digest"] == greedy["input_digest"]
        assert clean["token_logprobs"] == pytest.approx(greedy["token_logprobs"], rel=1e-5)
        assert [d["text"][:99] for d in clean["draws"]] == [t[:99] for t in rows.filter(pl.col("draw") > 0).sort("draw")["text"]]
        (rating,) = judged.filter(model="base", dataset="scenes", variant="clean", sample_id=of["id"], draw=0)["rating"]
        assert [j.get("rating") for j in clean["judges"]] == [rating] and clean.get("correct") == rating
        assert set(clean["uncertainty"]) == {"max_sequence_probability", "mean_token_entropy"}


def test_options_and_sets(results: Results, known: list[dict[str, Any]]) -> None:
    sets = pl.read_parquet(results.root / results.inputs["sets"])
    chosen = [one for one in known if one["dataset"] == "options"]
    assert chosen
    for of in chosen:
        (clean,) = (a for a in of["answers"] if (a["model"], a["variant"]) == ("other", "clean"))
        (row,) = sets.filter(model="other", dataset="options", variant="clean", sample_id=of["id"]).to_dicts()
        (own,) = clean["sets"]
        assert sum(2**i for i in own["options"]) == row["set_mask"] and own["set_size"] == row["set_size"] == len(own["options"])
        logits = results.generations("other", "options").filter(sample_id=of["id"], variant="clean")["option_logits"][0].to_numpy()
        assert clean["options"] == pytest.approx(np.exp(logits) / np.exp(logits).sum(), abs=1e-6)


def test_prompts_are_those_of_inference(results: Results, known: list[dict[str, Any]]) -> None:
    samples = {s["sample_id"]: s for name in results.datasets for s in results.samples(name).to_dicts()}
    for of in known:
        sample = samples[of["id"]]
        assert of["prompts"] == [render_question(sample["question"], sample["choices"])]
        assert all(v["prompts"] != of["prompts"] for v in of["variants"].values())
    changed = [of for of in known if any(name.startswith("typos") for name in of["variants"])]
    assert len(changed) > 30 and not any(name.startswith("blur") for of in known for name in of["variants"])


def test_a_question_that_no_prompt_can_letter_has_none(site: Site, answers: AnswerTable) -> None:
    samples = answers.samples.head(2).with_columns(choices=pl.lit(["x"] * 30))
    found = details(answers, site.parts["small"].model_inputs, samples)
    assert len(found) == 2 and {len(of["prompts"]) for of in found} == {0} and min(len(of["answers"]) for of in found) > 0


def test_a_changed_question_says_which_words_changed(site: Site, answers: AnswerTable, known: list[dict[str, Any]]) -> None:
    checked = 0
    for of, sample in zip(known, answers.samples.to_dicts(), strict=True):
        texts = site.parts["small"].model_inputs.questions(sample["dataset"], sample["sample_id"], answers.variants)
        for name, changed in of["variants"].items():
            runs = changed["changes"]
            old, new = (" ".join(filter(None, (run[0] or run[place] for run in runs))) for place in (1, 2))
            assert old.split() == sample["question"].split() and new.split() == texts[name].split()
            assert any(run[1] or run[2] for run in runs) and all(bool(run[0]) != bool(run[1] or run[2]) for run in runs)
            checked += 1
    assert checked > 30


def test_runs_of_changed_words() -> None:
    assert changed_words("a b\nc", "a b c") == [("a b", "", ""), ("", "\n", ""), ("c", "", "")]
    assert changed_words("", "new words") == [("", "", "new words")] and changed_words("same", "same") == [("same", "", "")]


def test_uncertainty_has_a_place_among_the_models_answers(results: Results, known: list[dict[str, Any]]) -> None:
    """The share that is less uncertain, counted one by one; equal values are not less."""
    checked = 0
    for model in results.models:
        for name in ("max_sequence_probability", "mean_token_entropy"):
            said = [(a["uncertainty"][name], a["percentile"][name]) for of in known for a in of["answers"] if a["model"] == model]
            values = results.answers(model, variant=None)[f"uncertainty[{name}]"].drop_nulls().to_numpy()
            assert len(said) == len(values) == 144
            for value, share in said:
                assert share == pytest.approx(np.mean(values < value * (1 - 1e-6)), abs=1e-6)
                checked += 1
    assert checked == 576


def test_images_that_the_dataset_does_not_hold(
    site: Site, answers: AnswerTable, known: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known and not any(of["missing"] for of in known)
    gone = answers.samples["image_id"][0]
    monkeypatch.setattr(DatasetFolder, "has_image", lambda self, name: name != gone)
    found = details(answers, site.parts["small"].model_inputs, answers.samples)
    assert {of["image"] for of in found if of["missing"]} == {gone} and found[0]["missing"] == [gone]


def test_hostile_texts_are_data(known: list[dict[str, Any]]) -> None:
    assert any(of["question"] == ASKED for of in known)
    assert "<script>" in json.dumps(known)
    assert all(len(a["text"]) <= MAX_TEXT + 40 for of in known for a in of["answers"])


def test_an_answer_by_hand() -> None:
    row = {
        "model": "m",
        "variant": "clean",
        "correct": 1.0,
        "confidence": None,
        "predicted": 0,
        "uncertainty[luq]": 0.25,
        "uncertainty[x]": None,
    }
    nothing = {"thinking": None, "no_answer": None, "token_logprobs": None}
    said = [
        {**nothing, "draw": 1, "text": None, "no_answer": "cut short"},
        {**nothing, "draw": 0, "text": "a" * MAX_TEXT, "thinking": "b" * (MAX_TEXT + 1), "token_logprobs": [-1.0, float("-inf")],
         "option_logits": [0.0, None, float(np.log(3))], "p_true": 0.0},
        {**nothing, "draw": 2, "text": "c", "token_logprobs": [-0.5, -0.25]},
    ]  # fmt: skip
    judged = [
        {"judge": "rules", "rating": 0.0, "reply": None, "marks": [("level", "2")], "draw": 0, "other": 1},
        {"judge": "rules", "rating": 1.0, "reply": "x", "marks": None, "draw": 1},
    ]
    sets = [{"setting": "s", "score": "lac", "is_calibration": False, "covered": None, "set_mask": 5, "set_size": 2}]
    assert _answer(row, said, judged, sets) == {
        "model": "m", "variant": "clean", "correct": 1.0, "predicted": 0, "text": "a" * MAX_TEXT,
        "thinking": "b" * MAX_TEXT + f"… ({MAX_TEXT + 1:,} characters)", "token_logprobs": [-1.0, None], "p_true": 0.0,
        "options": [0.25, None, 0.75], "uncertainty": {"luq": 0.25},
        "draws": [{"text": "", "logprob": None, "no_answer": "cut short"}, {"text": "c", "logprob": -0.75}],
        "judges": [{"judge": "rules", "rating": 0.0, "marks": {"level": "2"}}],
        "sets": [{"setting": "s", "score": "lac", "is_calibration": False, "set_size": 2, "options": [0, 2]}],
    }  # fmt: skip
    assert _answer(row, [{**said[1], "option_logits": [None, None]}], [], [])["options"] == [None, None]
    assert _answer({**row, "text": "A"}, [{**said[1], "text": ""}], [], [])["text"] == "A", "an answer of logits is its option's letter"
    assert set(_answer(row, [], [], [])) == {"model", "variant", "correct", "predicted", "uncertainty"}, "what is empty is left out"


def test_draws_are_as_probable_as_their_tokens(results: Results, known: list[dict[str, Any]]) -> None:
    generations = results.generations("base", "scenes")
    sampled = [one for one in known if one["dataset"] == "scenes"]
    assert sampled
    for of in sampled:
        (clean,) = (a for a in of["answers"] if (a["model"], a["variant"]) == ("base", "clean"))
        rows = generations.filter(sample_id=of["id"], variant="clean").filter(pl.col("draw") > 0).sort("draw")
        expected = [sum(logprobs) if logprobs else None for logprobs in rows["token_logprobs"].to_list()]
        assert expected and [d["logprob"] for d in clean["draws"]] == pytest.approx(expected, rel=1e-5)
