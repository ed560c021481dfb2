"""What was answered, whether it was right and how sure it was: by hand on a few rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.sample import ABSTENTIONS, GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.results.results import VERDICTS, Results
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage
from tests.runners.reporting.made_results import sample

OPTIONS = ["red", "blue", "green"]
QUESTIONS = [
    sample("open"),
    sample("mute"),
    sample("mc", choices=OPTIONS, answer_index=1),
    sample("mc2", choices=OPTIONS, answer_index=0),
    sample("words", choices=OPTIONS, answer_index=0),
]
Rows = Sequence[dict[str, Any]]


def generation(name: str, text: str | None = "x", **more: Any) -> dict[str, Any]:
    return {"sample_id": name, "variant": "clean", "draw": 0, "text": text, **more}


def judgement(name: str, rating: float | None, judge: str = "rules", dataset: str = "d", **more: Any) -> dict[str, Any]:
    row = {"model": "m", "dataset": dataset, "sample_id": name, "variant": "clean", "draw": 0, "judge": judge, "rating": rating}
    return {**row, "pred_is_idk": False, "parse_ok": True, **more}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., dict[str, dict[str, Any]]]:
    """Return the verdicts on answers of the model m to the dataset d, by sample."""

    def verdicts(rows: Rows, judged: Rows, questions: Rows = QUESTIONS, abstentions: Rows = (), **params: Any) -> dict[str, dict[str, Any]]:
        write_table(tmp_path / "d/samples.parquet", questions, SAMPLES)
        write_table(tmp_path / "g.parquet", rows, GENERATIONS)
        write_table(tmp_path / "j.parquet", judged, JUDGEMENTS)
        inputs: dict[str, Any] = {"datasets": {"d": "d"}, "generations": {"m": {"d": "g.parquet"}}, "judgements": "j.parquet"}
        if abstentions:
            write_table(tmp_path / "a.parquet", abstentions, ABSTENTIONS)
            inputs["abstentions"] = "a.parquet"
        settings = {"judge": "rules", "confidence": "sequence", **params}
        results = Results(Stage("s/score", "s", "score", "score", settings, inputs, {}, 7, Settings()), ["m"], tmp_path)
        frame = results.verdicts().collect()
        assert frame.schema == VERDICTS
        wanted = "m+thresholded" if abstentions else "m"
        return {row["sample_id"]: row for row in frame.filter(model=wanted).to_dicts()}

    return verdicts


def test_open_answers_are_as_right_as_they_were_judged_and_as_sure_as_their_words(read: Callable[..., Any]) -> None:
    rows = [
        generation("open", "a cube", token_logprobs=[math.log(0.5), math.log(0.25)], p_yes=0.75),
        generation("open", "drawn", draw=1, token_logprobs=[0.0]),
        generation("mute", None, token_logprobs=[]),
        {**generation("open", "blurred"), "variant": "blur"},
    ]
    judged = [judgement("open", 0.5, pred_is_idk=True), judgement("open", 1.0, judge="second"), judgement("mute", 1.0, dataset="e")]
    found = read(rows, judged)
    assert sorted(found) == ["mute", "open"], "questions without an answer have no row"
    assert found["open"]["confidence"] == pytest.approx(0.125)
    assert [found["open"][name] for name in ("predicted", "correct", "pred_is_idk", "abstains")] == [None, 0.5, True, None]
    assert [found["mute"][name] for name in ("correct", "confidence", "pred_is_idk")] == [None, None, None]
    assert read(rows, judged, confidence="verify")["open"]["confidence"] == 0.75
    assert read(rows, judged, judge="second")["open"]["correct"] == 1.0


def test_what_no_judge_read_counts_as_the_spec_says(read: Callable[..., Any]) -> None:
    rows = [generation("open", "hm", token_logprobs=[0.0])]
    assert read(rows, [judgement("open", None)])["open"]["correct"] is None
    assert read(rows, [judgement("open", None)], unread="wrong")["open"]["correct"] == 0.0


def test_options_are_picked_by_their_logits_and_as_sure_as_the_softmax(read: Callable[..., Any]) -> None:
    rows = [
        generation("mc", "B", option_logits=[0.0, math.log(3.0), 0.0], token_logprobs=[0.0], p_yes=0.1),
        generation("mc2", None, option_logits=[1000.0, 1000.0 + math.log(2.0), -1000.0]),
        generation("words", "red", token_logprobs=[math.log(0.5)], p_yes=0.1),
    ]
    judged = [judgement("words", 1.0, "first"), judgement("words", 0.0)]
    for confidence in ("sequence", "verify"):
        found = read(rows, judged, confidence=confidence, judge_of_choices={"d": "first"})
        assert [(found[n]["predicted"], found[n]["correct"]) for n in ("mc", "mc2", "words")] == [(1, 1.0), (1, 0.0), (None, 1.0)]
        assert found["mc"]["confidence"] == pytest.approx(3 / 5) and found["mc2"]["confidence"] == pytest.approx(2 / 3)
        assert found["words"]["confidence"] is None, "there are no logits of its options"


def test_a_datasets_own_judge_goes_before_the_first(read: Callable[..., Any]) -> None:
    rows, judged = [generation("open")], [judgement("open", 1.0), judgement("open", 0.0, "second")]
    assert read(rows, judged)["open"]["correct"] == 1.0
    assert read(rows, judged, judge_of={"d": "second"})["open"]["correct"] == 0.0


def test_a_model_that_abstains_is_right_where_there_is_no_answer(read: Callable[..., Any]) -> None:
    names = ["can", "cannot", "fit", "open", "unsure"]
    questions = [sample(name, answerable=name != "cannot") for name in names]
    rows = [generation(name, f"said {name}", token_logprobs=[math.log(0.1)]) for name in names]
    judged = [judgement(name, 0.5, pred_is_idk=False) for name in names]
    common = {"model": "m", "dataset": "d", "variant": "clean", "method": "thresholded", "is_fit": False}
    decisions = [{**common, "sample_id": n, "abstains": n in ("can", "cannot", "fit"), "confidence": 0.9} for n in names]
    decisions[2]["is_fit"], decisions[4]["abstains"] = True, None
    found = read(rows, judged, questions, decisions)
    columns = ("correct", "pred_is_idk", "abstains", "confidence")
    assert {name: tuple(row[column] for column in columns) for name, row in found.items()} == {
        "can": (0.0, True, True, 0.9),
        "cannot": (1.0, True, True, 0.9),
        "open": (0.5, False, False, 0.9),
        "unsure": (None, None, None, None),
    }, "answers that the threshold was fitted on have no row"
