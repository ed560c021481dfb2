import shutil
from dataclasses import replace

import numpy as np
import pytest

from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.results.compare import compare_scores
from qualm.compiler.results.revisions import RESULTS, TESTED, add_paired_tests, diff_files, diff_revision
from tests.compiler.results.test_at_revision import AFTER, BEFORE, History, history
from tests.compiler.results.test_compare import of
from tests.support.data.score_files import write_scores

__all__ = ["history"]
STAGE = {
    "kind": "score",
    "params": {"metrics": [{"label": "ece", "plugin": "ece", "args": {"bins": 15}}]},
    "inputs": {},
    "outputs": {},
    "seed": 7,
}


def files(results, **stages):
    return {**stages, RESULTS: results}


def test_stages_that_came_and_went_and_parameters_that_changed():
    changed = {**STAGE, "params": {"metrics": [{"label": "ece", "plugin": "ece", "args": {"bins": 10}}]}}
    parameters, results = diff_files(files({}, score=STAGE, old=STAGE), files({}, score=changed, new=STAGE))
    assert results == [] and [(p["stage"], p["change"]) for p in parameters if p["stage"] != "score"] == [
        ("new", "is new"),
        ("old", "is gone"),
    ]
    (change,) = [p["change"] for p in parameters if p["stage"] == "score"]
    assert "15" in change and "10" in change


def test_results_that_differ_with_their_change():
    old = {"m": {"d": {"ece": 0.25, "acc": 0.5, "gone": 1.0}}}
    new = {"m": {"d": {"ece": 0.5, "acc": 0.5}}, "n": {"d": {"acc": 0.75}}}
    _, results = diff_files(files(old), files(new))
    assert results == [
        {"model": "m", "dataset": "d", "variant": "clean", "metric": "ece", "old": 0.25, "new": 0.5, "change": 0.25},
        {"model": "m", "dataset": "d", "variant": "clean", "metric": "gone", "old": 1.0, "new": None, "change": None},
        {"model": "n", "dataset": "d", "variant": "clean", "metric": "acc", "old": None, "new": 0.75, "change": None},
    ]
    assert diff_files(files(old, s=STAGE), files(old, s=STAGE)) == ([], [])


def change(metric: str, old: float, new: float) -> dict:
    return {"model": "m", "dataset": "d", "variant": "clean", "metric": metric, "old": old, "new": new, "change": new - old}


def test_changes_are_tested_on_the_answers_that_both_revisions_have(history: History) -> None:
    row = change("accuracy", np.mean(BEFORE), np.mean(AFTER))
    facts = add_paired_tests(history, "s", "HEAD~1", [row])  # type: ignore[arg-type]
    expected = of(compare_scores(history, None, "HEAD~1:s", "s", metrics=["accuracy"]), "accuracy")  # type: ignore[arg-type]
    assert {name: row[name] for name in TESTED} == {name: expected[name] for name in TESTED}
    assert row["n"] == 120 and row["low"] < row["change"] < row["high"] and row["significant"] and row["better"] == "b"
    assert facts["test"]["name"] == "paired t" and facts["level"] == 0.95


def test_a_calibration_error_is_tested_by_its_unbiased_square(history: History) -> None:
    expected = of(compare_scores(history, None, "HEAD~1:s", "s", metrics=["ece"]), "ece")  # type: ignore[arg-type]
    assert expected["plain_a"] != pytest.approx(expected["a"]), "the values are of another quantity than the metric"
    row = change("ece", expected["plain_a"], expected["plain_b"])
    facts = add_paired_tests(history, "s", "HEAD~1", [row])  # type: ignore[arg-type]
    assert row["p"] == expected["p"] and (row["low"], row["high"], row["compared_by"]) == (None, None, "ece_debiased")
    assert facts["notes"][1:] == [
        "ece: compared by squared ece_debiased, since the plain estimate is biased by an amount that depends on the model"
    ]


def test_what_is_not_what_the_answers_give_is_not_evidence(history: History) -> None:
    rows = [change("accuracy", np.mean(BEFORE), np.mean(AFTER) + 0.1), {**change("gone", 1.0, 0.0), "new": None, "change": None}]
    facts = add_paired_tests(history, "s", "HEAD~1", rows)  # type: ignore[arg-type]
    assert [row["p"] for row in rows] == [None, None]
    assert facts["notes"][-1].startswith("1 of these changes are not tested: recomputed on the questions both sides share")


def test_without_the_revisions_answers_a_note_says_why(history: History) -> None:
    for stored in (history.root / ".dvc/cache").rglob("*"):
        if stored.is_file():
            stored.unlink()
    row = change("accuracy", 0.5, 0.8)
    facts = add_paired_tests(history, "s", "HEAD~1", [row])  # type: ignore[arg-type]
    assert row["p"] is None and facts["test"] is None
    assert facts["notes"][0].startswith("no test of these changes: HEAD~1:s: not in DVC's cache here")
    assert add_paired_tests(history, "s", "HEAD~1", []) == {"level": None, "test": None, "notes": []}  # type: ignore[arg-type]


def test_results_under_every_variant_are_compared(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a sweep lie in scores.parquet alone; where the revision's table is missing, a note says so."""
    monkeypatch.setattr("qualm.compiler.results.revisions.report_changed", lambda root, files: [])
    scores = history.root / "results/s/scores.parquet"
    asked = PlannedStage(
        "infer", "infer", "", {"variants": [{"variant": "clean"}, {"variant": "blur@radius=2"}]}, {}, {"generations": "g"}, 7, ()
    )
    place = {"model": "m", "dataset": "d", "metric": "accuracy"}
    blurred = [place | {"variant": f"blur@radius={radius}", "slice": "all"} for radius in (2, 4)]
    write_scores(scores, [row | {"value": 0.5} for row in blurred] + [blurred[0] | {"slice": "category=x", "value": 0.1}])
    history.keep("s", {"m": AFTER})
    write_scores(scores, [blurred[0] | {"value": 0.25}, blurred[1] | {"value": 0.5}, blurred[0] | {"slice": "category=x", "value": 0.9}])
    plan = history.plan("s")
    history.plans["s"] = replace(plan, stages=(asked, *plan.stages))
    found = diff_revision(history, "s", "HEAD")  # type: ignore[arg-type]
    (row,) = found["results"]
    assert row == place | {"variant": "blur@radius=2", "old": 0.5, "new": 0.25, "change": -0.25} | dict.fromkeys(TESTED)
    assert found["notes"] == ["changes under variants are not tested"]
    shutil.rmtree(history.root / ".dvc/cache")
    found = diff_revision(history, "s", "HEAD")  # type: ignore[arg-type]
    assert found["results"] == [] and found["notes"][0].startswith("no results under variants: HEAD:s: not in DVC's cache here")
