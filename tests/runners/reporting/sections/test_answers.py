"""What was answered, whether it was right and how sure it was: by hand on a few rows."""

import math

import polars as pl
import pytest

from qualm.registry.sample import ABSTENTIONS, GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.reporting.sections.answers import ANSWERS, Judgements, abstaining_answers, clean_rows, model_answers, read_frame
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.made_results import frame, sample

OPTIONS = ["red", "blue", "green"]


@pytest.fixture
def samples():
    rows = [sample("open"), sample("mute"), sample("mc", choices=OPTIONS, answer_index=1), sample("mc2", choices=OPTIONS, answer_index=0),
            sample("words", choices=OPTIONS, answer_index=0)]  # fmt: skip
    return frame(rows, SAMPLES)


def generation(name, text="x", **more):
    return {"sample_id": name, "variant": "clean", "draw": 0, "text": text, **more}


def judgement(name, rating, judge="rules", model="m", dataset="d", **more):
    row = {"model": model, "dataset": dataset, "sample_id": name, "variant": "clean", "draw": 0, "judge": judge, "rating": rating}
    return {**row, "parse_ok": True, **more}


def answered(tmp_path, rows, samples, judged=(), confidence="sequence"):
    write_table(tmp_path / "g.parquet", rows, GENERATIONS)
    write_table(tmp_path / "j.parquet", judged, JUDGEMENTS)
    judgements = Judgements(str(tmp_path / "j.parquet"), None, {}, {}, {})
    frames = model_answers("m", "d", str(tmp_path / "g.parquet"), samples, judgements, confidence).collect()
    only = model_answers("m", "d", str(tmp_path / "g.parquet"), samples, judgements, confidence, frames["sample_id"][1:]).collect()
    assert only.equals(frames[1:])
    assert frames.schema == pl.Schema(ANSWERS)
    return {row["sample_id"]: row for row in frames.to_dicts()}


def test_a_missing_table_is_an_empty_one_and_columns_can_be_chosen(tmp_path):
    assert read_frame(None, JUDGEMENTS).columns == JUDGEMENTS.names and read_frame(None, JUDGEMENTS).is_empty()
    write_table(tmp_path / "j.parquet", [judgement("a", 1.0)], JUDGEMENTS)
    assert read_frame(tmp_path / "j.parquet", JUDGEMENTS, ["judge", "rating"]).to_dicts() == [{"judge": "rules", "rating": 1.0}]
    assert clean_rows(pl.DataFrame({"variant": ["clean", "blur", "clean"], "i": [1, 2, 3]}))["i"].to_list() == [1, 3]


def test_open_answers_are_as_right_as_they_were_judged_and_as_sure_as_their_words(tmp_path, samples):
    rows = [
        generation("open", "a cube", token_logprobs=[math.log(0.5), math.log(0.25)], p_yes=0.75),
        generation("open", "drawn", draw=1, token_logprobs=[0.0]),
        generation("mute", None, token_logprobs=[]),
        {**generation("open", "blurred"), "variant": "blur"},
        generation("unknown", "of no sample"),
    ]
    judged = [judgement("open", 0.5, pred_is_idk=True), judgement("open", 1.0, judge="second"), judgement("mute", 1.0, dataset="e"),
              judgement("mute", 0.0, model="n")]  # fmt: skip
    found = answered(tmp_path, rows, samples, judged)
    assert list(found) == ["open", "mute"]
    open_, mute = found["open"], found["mute"]
    assert (open_["text"], open_["picked"], open_["correct"], open_["declined"]) == ("a cube", None, 0.5, True)
    assert open_["confidence"] == pytest.approx(0.125) and (open_["model"], open_["dataset"]) == ("m", "d")
    assert (mute["text"], mute["correct"], mute["confidence"], mute["declined"]) == ("", None, None, None)
    assert answered(tmp_path, rows, samples, judged, "verify")["open"]["confidence"] == 0.75


def test_options_are_picked_by_their_logits_and_as_sure_as_the_softmax(tmp_path, samples):
    rows = [
        generation("mc", "B", option_logits=[0.0, math.log(3.0), 0.0], token_logprobs=[0.0], p_yes=0.1),
        generation("mc2", None, option_logits=[1000.0, 1000.0 + math.log(2.0), -1000.0]),
        generation("words", "red", token_logprobs=[math.log(0.5)], p_yes=0.1),
    ]
    judged = [judgement("mc", 0.0), judgement("words", 1.0)]
    for confidence in ("sequence", "verify"):
        found = answered(tmp_path, rows, samples, judged, confidence)
        assert [(found[n]["picked"], found[n]["correct"]) for n in ("mc", "mc2", "words")] == [(1, 1.0), (1, 0.0), (None, 1.0)]
        assert found["mc"]["confidence"] == pytest.approx(3 / 5) and found["mc2"]["confidence"] == pytest.approx(2 / 3)
        assert found["words"]["confidence"] is None, "there are no logits of its options"


def read(tmp_path, rows, default=None, own=None, of_choices=None, samples=None):
    write_table(tmp_path / "j.parquet", rows, JUDGEMENTS)
    judgements = Judgements(str(tmp_path / "j.parquet"), default, own or {}, of_choices or {}, samples or {})
    first: dict[tuple[str, str], str] = {}
    for dataset in {row["dataset"] for row in rows}:
        for row in judgements.of("m", dataset).iter_rows(named=True):
            first.setdefault((dataset, row["sample_id"]), row["judge"])
    return first, judgements.names


def test_the_first_judge_of_the_table_counts_unless_another_is_asked_for(tmp_path):
    rows = [judgement("a", 1.0, "x"), judgement("a", 0.0, "y"), judgement("b", 0.0, "y"), judgement("b", 1.0, "x"),
            judgement("c", 1.0, "y")]  # fmt: skip
    assert read(tmp_path, rows) == ({("d", "a"): "x", ("d", "b"): "x", ("d", "c"): "y"}, "x")
    assert read(tmp_path, rows, "y") == ({("d", "a"): "y", ("d", "b"): "y", ("d", "c"): "y"}, "y")


def test_a_data_sets_own_judge_goes_before_it(tmp_path):
    rows = [judgement(n, 1.0, j, dataset=d) for n in "ab" for d in "de" for j in "xy"]
    judges, name = read(tmp_path, rows, "x", {"e": "y"})
    assert judges == {("d", "a"): "x", ("d", "b"): "x", ("e", "a"): "y", ("e", "b"): "y"} and name == "x, y"
    assert read(tmp_path, rows, "x", {"e": "x", "d": "x"})[1] == "x"


def test_options_in_words_are_judged_by_who_is_for_them(tmp_path, samples):
    rows = [judgement(n, 1.0, j, dataset=d) for n in ("open", "mc") for d in "de" for j in ("x", "options")]
    judges, name = read(tmp_path, rows, "x", of_choices={"d": "options", "gone": "options"}, samples={"d": samples, "e": samples})
    assert judges == {("d", "open"): "x", ("d", "mc"): "options", ("e", "open"): "x", ("e", "mc"): "x"} and name == "x"


def test_only_greedy_answers_to_clean_samples_are_judged(tmp_path):
    rows = [judgement("a", 1.0, draw=1), judgement("b", 1.0, variant="blur")]
    assert read(tmp_path, rows) == ({}, "")
    none = Judgements(None, "x", {}, {}, {})
    assert none.of("m", "d").is_empty() and none.names == ""


def test_a_model_that_abstains_declines_where_it_is_too_unsure():
    samples = {"d": frame([sample("can"), sample("cannot", answerable=False), sample("null", answerable=None), sample("fit"),
                           sample("open"), sample("unsure")], SAMPLES)}  # fmt: skip
    names = ["can", "cannot", "null", "fit", "open", "unsure"]
    answers = pl.DataFrame(
        [{"model": "m", "dataset": "d", "sample_id": n, "text": f"said {n}", "picked": 2, "correct": 0.5, "confidence": 0.1,
          "declined": n == "unsure"} for n in names],
        schema=ANSWERS,
    )  # fmt: skip
    common = {"model": "m", "dataset": "d", "variant": "clean", "method": "thresholded", "is_fit": False}
    decisions = [{**common, "sample_id": n, "abstains": n in ("can", "cannot", "null", "fit"), "confidence": 0.9} for n in names]
    decisions[3]["is_fit"], decisions[5]["abstains"] = True, None
    other = [{**decisions[0], "model": "gone"}, {**decisions[0], "dataset": "e"}]
    (made,) = abstaining_answers(frame([*decisions, *other], ABSTENTIONS), answers, samples)
    assert made.columns == list(ANSWERS) and set(made["model"]) == {"m+thresholded"}
    rows = {r["sample_id"]: (r["text"], r["correct"], r["declined"], r["confidence"], r["picked"]) for r in made.to_dicts()}
    assert rows == {
        "can": ("abstains (answer without abstention: said can)", 0.0, True, 0.9, 2),
        "cannot": ("abstains (answer without abstention: said cannot)", 1.0, True, 0.9, 2),
        "null": ("abstains (answer without abstention: said null)", 0.0, True, 0.9, 2),
        "open": ("said open", 0.5, False, 0.9, 2),
        "unsure": ("said unsure", None, True, 0.9, 2),
    }
