"""`qualm show --failures`: wrong answers with what was expected, the most confident first."""

import json

import polars as pl
import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.failures import given_answer, show_failures
from qualm.runners.results.results import Results


def test_confident_errors_come_first(viewed: Project, results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    show_failures(viewed, "small", 1000, None, None, None, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    wrong = results.answers().filter(pl.col("correct") == 0)
    assert len(shown) == wrong.height > 5
    sure = [row["confidence"] for row in shown if row["confidence"] is not None]
    assert sure == sorted(sure, reverse=True) and sure
    known = {(row["model"], row["dataset"], row["sample_id"]): row for row in wrong.to_dicts()}
    for row in shown:
        answer = known[row["model"], row["dataset"], row["sample_id"]]
        assert row["question"] == answer["question"] and row["confidence"] == answer["confidence"]
        if answer["choices"]:
            assert row["expected"].endswith(f". {answer['choices'][answer['answer_index']]}")
            assert row["answer"].endswith(f". {answer['choices'][answer['predicted']]}") and row["answer"] != row["expected"]
        else:
            assert row["expected"] == answer["references"][0]


def test_one_model_variant_and_dataset_on_a_terminal(viewed: Project, results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    show_failures(viewed, "small", 2, ["other"], ["scenes"], ["typos@p=0.5"], as_json=False)
    shown = capsys.readouterr().out
    wrong = results.answers("other", "scenes", "typos@p=0.5").filter(pl.col("correct") == 0).sort("confidence", descending=True)
    assert shown.count("  question   ") == shown.count("  expected   ") == shown.count("  confidence ") == 2
    assert f"other · scenes · typos@p=0.5 · {wrong['sample_id'][0]} · " in shown and f"confidence {wrong['confidence'][0]:.3f}" in shown
    assert f"2 of {wrong.height} wrong answers, the most confident first; 24 answers in all, " in shown and "2 of them \nunscored" in shown
    assert "\x1b" not in shown and "\u202e" not in shown


@pytest.mark.parametrize(
    ("models", "datasets", "variants", "words"),
    [(["othr"], None, None, "no model 'othr'"), (None, ["scene"], None, "no dataset 'scene'"), (None, None, ["dark"], "variant 'dark'")],
)
def test_unknown_names(
    viewed: Project, models: list[str] | None, datasets: list[str] | None, variants: list[str] | None, words: str
) -> None:
    with pytest.raises(ProjectError, match=words):
        show_failures(viewed, "small", 5, models, datasets, variants, as_json=False)


def test_answers_without_a_text() -> None:
    choice = {"text": None, "choices": ["red", "blue"], "predicted": 1}
    assert [given_answer(choice | more) for more in ({}, {"text": "B"}, {"text": "the blue one"})] == ["B. blue", "B. blue", "the blue one"]
    assert given_answer({"text": None, "choices": list("x" * 30), "predicted": 27}) == "28. x"
    assert given_answer({"text": " ", "choices": [], "no_answer": "cut short"}) == "no answer: cut short"
