"""Stage `judge`: what is judged by whom, what stays unscored, and a row for each; real judges on a few answers."""

import json
from pathlib import Path

import pytest

from qualm.registry.sample import GENERATIONS, JUDGEMENTS, SAMPLES
from qualm.runners.runtime.records import read_table, write_table
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage, StageError
from qualm.runners.scoring import judge_queue
from qualm.runners.stages import judge
from tests.support.projects.stages import ref

OPTIONS = ["red", "blue"]


@pytest.fixture(autouse=True, params=[(8192, 100_000), (1, 1), (3, 2)], ids=["whole", "one", "few"])
def _here(tmp_path, monkeypatch, request):
    """However many answers are taken at a time, and judged together."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judge, "_SLICE", request.param[0])
    monkeypatch.setattr(judge_queue, "MAX_ANSWERS", request.param[1])


def sample(name, **more):
    return {"sample_id": name, "question": "What color?", "references": ["red"], "answerable": True, "choices": [], "group": "", **more}


SAMPLES_OF = [
    sample("open"), sample("none", references=[], answerable=False), sample("bare", references=[]), sample("mute"),
    sample("mc", references=[], choices=OPTIONS, answer_index=1), sample("logits", references=[], choices=OPTIONS, answer_index=0),
    sample("neither", references=[], choices=OPTIONS), sample("declines", references=[], choices=OPTIONS, answerable=False),
]  # fmt: skip
TEXTS = {
    "open": "Red.",
    "none": "I don't know",
    "bare": "red",
    "mute": None,
    "mc": "B",
    "logits": "A",
    "neither": "A",
    "declines": "I cannot tell",
}


def generation(name, text, **more):
    return {
        "sample_id": name,
        "variant": "clean",
        "draw": 0,
        "text": text,
        **({"option_logits": [1.0, 0.0]} if name == "logits" else {}),
        **more,
    }


def run(judges, generations=None, datasets=None, labels="", **params):
    """The stage over one model's answers (by model and dataset otherwise); its counters and rows."""
    for name, rows in (datasets or {"d": SAMPLES_OF}).items():
        write_table(Path("data") / name / "samples.parquet", rows, SAMPLES)
    usual = {"m": {"d": [generation(name, text) for name, text in TEXTS.items()]}}
    places = {}
    for model, of in (generations or usual).items():
        for name, rows in of.items():
            places.setdefault(model, {})[name] = f"generations/{model}/{name}.parquet"
            write_table(Path(places[model][name]), rows, GENERATIONS)
    inputs = {"datasets": {name: f"data/{name}" for name in datasets or {"d": 0}}, "generations": places}
    if labels:
        Path("labels.csv").write_text(labels)
        inputs["labels"] = "labels.csv"
    outputs = {"judgements": "results/judgements.parquet", "judging": "results/judging.json"}
    stage = Stage("s/judge", "s", "judge", "judge", {"judges": judges, **params}, inputs, outputs, 7, Settings(progress=False))
    judge.run(stage)
    return stage.counters, read_table(Path(outputs["judgements"]), JUDGEMENTS).to_pylist()


def ratings(rows):
    return {row["sample_id"]: row["rating"] for row in rows}


def test_open_answers_and_options_in_words_are_judged_and_numbers_are_not():
    counters, rows = run([ref("rules")])
    assert ratings(rows) == {"open": 1.0, "none": 1.0, "bare": None, "mute": None, "mc": 1.0, "declines": 1.0}
    assert counters == {"judgements": 6, "unscored": 2}
    by_name = {row["sample_id"]: row for row in rows}
    assert {n: r["gt_is_idk"] for n, r in by_name.items()} == {n: n in ("none", "declines") for n in by_name}
    assert {n: r["pred_is_idk"] for n, r in by_name.items()} == {
        "open": False, "none": True, "bare": None, "mute": None, "mc": False, "declines": True,
    }  # fmt: skip
    assert {(r["model"], r["dataset"], r["variant"], r["draw"], r["judge"]) for r in rows} == {("m", "d", "clean", 0, "rules")}


def test_declining_is_wrong_where_there_is_an_answer_and_any_answer_where_there_is_none():
    said = {"open": "I don't know", "none": "red", "mc": "I don't know", "declines": "A"}
    _, rows = run([ref("rules")], {"m": {"d": [generation(n, t) for n, t in said.items()]}})
    assert ratings(rows) == dict.fromkeys(said, 0.0)


def test_sampled_answers_are_not_judged_and_every_variant_is():
    rows = [generation("open", "red"), generation("open", "blue", draw=1), generation("open", "blue", variant="blur")]
    counters, found = run([ref("rules")], {"m": {"d": rows}})
    assert [(r["variant"], r["draw"], r["rating"]) for r in found] == [("clean", 0, 1.0), ("blur", 0, 0.0)]
    assert counters == {"judgements": 2, "unscored": 0}


def test_rows_are_by_model_and_data_set_then_judge_then_as_answered():
    answers = [generation("open", "red"), generation("none", "red")]
    generations = {"n": {"e": answers[:1], "d": answers}, "m": {"d": answers[::-1]}}
    _, rows = run([ref("rules", "b"), ref("exact_match", "a")], generations, {"e": SAMPLES_OF, "d": SAMPLES_OF})
    assert [(r["model"], r["dataset"], r["judge"], r["sample_id"]) for r in rows] == [
        ("m", "d", "b", "none"), ("m", "d", "b", "open"), ("m", "d", "a", "none"), ("m", "d", "a", "open"),
        ("n", "d", "b", "open"), ("n", "d", "b", "none"), ("n", "d", "a", "open"), ("n", "d", "a", "none"),
        ("n", "e", "b", "open"), ("n", "e", "a", "open"),
    ]  # fmt: skip


def test_equal_answers_are_judged_once_and_counted():
    rows = [generation("open", "red", variant=v) for v in ("clean", "blur", "noise")]
    counters, found = run([ref("rules")], {"m": {"d": rows}})
    assert counters == {"judgements": 3, "unscored": 0, "same as another": 2} and [r["rating"] for r in found] == [1.0] * 3


def test_a_judge_is_given_the_kind_of_question_that_it_reads():
    _, rows = run([ref("option_match"), ref("exact_match")])
    assert {n: r for n, r in ratings([r for r in rows if r["judge"] == "option_match"]).items() if r is not None} == {
        "mc": 1.0,
        "declines": 1.0,
    }
    assert "mc" not in ratings([r for r in rows if r["judge"] == "exact_match"])


def test_a_data_set_that_names_judges_is_judged_by_them_alone():
    answers = [generation("open", "red")]
    generations = {"m": {"d": answers, "e": answers, "empty": []}}
    datasets = dict.fromkeys(("d", "e", "empty"), SAMPLES_OF)
    _, rows = run([ref("rules"), ref("exact_match")], generations, datasets, only={"e": ["exact_match"]})
    assert [(r["dataset"], r["judge"]) for r in rows] == [("d", "rules"), ("d", "exact_match"), ("e", "exact_match")]


def test_marks_of_a_judge_stand_beside_its_rating():
    _, rows = run([ref("rules")])
    assert all(row["marks"] is None for row in rows if row["rating"] is None)
    assert all(row["parse_ok"] is None for row in rows if row["sample_id"] in ("bare", "mute"))


@pytest.mark.parametrize(
    "judge_name, text, reference, warning",
    [
        ("exact_match", "It is red.", "red", "rates none of 12 answers as right (expected 'red', got 'It is red.'); compare with `rules`"),
        ("exact_match", "It is 5.", "5", "compare with `final_value`"),
        ("rules", "It has the color of ripe tomatoes.", "red", "rates none of 12 answers as right"),
        ("rules", "The small car that stands on the left is clearly red.", "red", "replies are much longer than references"),
        ("rules", "It is red.", "red", ""),
    ],
)
def test_a_judge_that_does_not_fit_is_named(capsys, judge_name, text, reference, warning):
    samples = [sample(f"s{i}", question=f"What is {i}?", references=[reference]) for i in range(12)]
    run([ref(judge_name)], {"m": {"d": [generation(f"s{i}", text) for i in range(12)]}}, {"d": samples})
    said = capsys.readouterr().err
    assert warning in said and ("model 'm', dataset 'd'" in said) is bool(warning)


def test_answers_to_samples_that_are_gone_stop_the_stage():
    with pytest.raises(StageError) as error:
        run([ref("rules")], {"m": {"d": [generation("open", "red"), generation("x", "red"), generation("y", "red")]}})
    assert str(error.value) == ("generations/m/d.parquet: 2 answers are to samples that dataset 'd' does not have; run `dvc repro`")


LABELS = "question,reference,prediction,is_refusal,rating\nWhat?,red,Red.,0,1\nWhat?,,I don't know,1,1\n"


def test_judges_are_held_to_people_where_there_are_labels():
    run([ref("rules")], labels=LABELS)
    (told,) = json.loads(Path("results/judging.json").read_text()).items()
    assert told[0] == "rules" and told[1]["n"] == 2 and told[1]["refusals"]["accuracy"] == 1.0
    with pytest.raises(StageError, match=r"labels\.csv: expected the columns .*; missing"):
        run([ref("rules")], labels="question\n")


def test_without_labels_there_is_no_such_file():
    run([ref("rules")])
    assert not Path("results/judging.json").exists()
