"""`fit: val`, through the score stage: fitted on answers that are not scored, read on all that are."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from qualm.registry.sample import CALIBRATOR_COMPARISONS, COMPARISONS, LABELLED_SCORES, RECALIBRATED, SAMPLES
from qualm.runners.runtime.records import write_table
from tests.runners.stages import test_score as small
from tests.support.projects.scored import rows_of

HELD = {
    "label": "held",
    "methods": [small.ref("platt", prior_correction=False), small.ref("temperature"), small.ref("venn_abers")],
    "of": ["", "perplexity"],
    "calibration": {"fit": "val"},
    "refits": 50,
}
TABLES = {
    "scores": LABELLED_SCORES,
    "calibrator_comparisons": CALIBRATOR_COMPARISONS,
    "recalibrated": RECALIBRATED,
    "comparisons": COMPARISONS,
}


def scored(splits, folder, patch):
    """The tables of the score stage, of a world whose i-th sample is of the split `splits(i)`; and the world."""
    patch.chdir(folder)
    patch.setattr(small, "OUTPUTS", [*small.OUTPUTS, "calibrator_comparisons", "recalibrated", "comparisons"])
    world = small.World()
    for name, rows in (("choice", world.choice), ("open", world.open)):
        write_table(Path("data") / name / "samples.parquet", [row | {"split": splits(i)} for i, row in enumerate(rows)], SAMPLES)
    compare = {"baseline": "m1", "pairs": [], "margin": None, "correction": "max_t", "family": "study"}
    metrics = [small.ref("brier"), small.ref("accuracy")]
    world.run_all(calibrators=[HELD], compare=compare, slices=["category"], metrics=metrics)
    return world, {name: rows_of(Path("results") / name, schema) for name, schema in TABLES.items()}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield scored(lambda i: "val" if i < 60 else "test", tmp_path_factory.mktemp("scored"), patch)


def of(rows, **key):
    return [r for r in rows if all(r[name] == value for name, value in key.items())]


@pytest.mark.slow
def test_all_scored_answers_are_read_and_none_of_those_that_calibrate_is_scored(world):
    _, tables = world
    assert {int(r["sample_id"][1:]) >= 60 for r in tables["recalibrated"]} == {True}
    assert not any(r["is_calibration"] for r in tables["recalibrated"])
    by = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in tables["scores"]}
    plain, raw, platt = (by["m1", "open", "blur@radius=2.0", "all", f"brier{name}"] for name in ("", "[held/raw]", "[held/platt]"))
    assert plain["value"] == raw["value"] and plain["n"] == raw["n"] == platt["n"] == 60
    assert platt["low"] < platt["value"] < platt["high"] and platt["n_resamples"] == 50
    assert platt["high"] - platt["low"] > platt["high_at_threshold"] - platt["low_at_threshold"]


def test_the_fit_is_scikit_learns_of_the_unscored_answers(world):
    """An estimator's value, by logistic regression without a penalty."""
    answers, tables = world
    uncertainty = {i: -np.mean(answers.answers["m1", "open"]["clean", f"s{i}"]["token_logprobs"]) for i in range(120) if i != small.GAP}
    right = {}
    for i, sample in enumerate(answers.open):
        text = answers.answers["m1", "open"].get(("clean", f"s{i}"), {}).get("text")
        right[i] = text == ("red" if sample["answerable"] else "I don't know")
    fit = [i for i in range(60) if i != small.GAP]
    model = LogisticRegression(C=np.inf, tol=1e-10).fit([[-uncertainty[i]] for i in fit], [right[i] for i in fit])
    rows = of(tables["recalibrated"], model="m1", dataset="open", variant="clean", method="platt", estimator="perplexity")
    assert len(rows) == 60
    expected = model.predict_proba([[-uncertainty[int(r["sample_id"][1:])]] for r in rows])[:, 1]
    assert [r["confidence"] for r in rows] == pytest.approx(expected, abs=1e-5)


def test_intervals_of_venn_abers_stand_beside_its_value_but_for_multiple_choice(world):
    _, tables = world
    for r in of(tables["recalibrated"], method="venn_abers"):
        if r["dataset"] == "choice" and r["estimator"] is None:
            assert r["p0"] is r["p1"] is None and 0 < r["confidence"] < 1
        else:
            assert r["confidence"] == pytest.approx(r["p1"] / (1 - r["p0"] + r["p1"]), abs=1e-6) and r["p0"] < r["p1"]
    assert all(r["p0"] is None for r in of(tables["recalibrated"], method="platt"))


def test_a_temperature_is_one_for_all_scored_answers(world):
    answers, tables = world
    rows = of(tables["recalibrated"], model="m2", dataset="open", variant="clean", method="temperature")
    raw = {r["sample_id"]: np.exp(sum(answers.answers["m2", "open"]["clean", r["sample_id"]]["token_logprobs"])) for r in rows}
    ratios = [logit(r["confidence"]) / logit(raw[r["sample_id"]]) for r in rows if abs(logit(raw[r["sample_id"]])) > 0.1]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), abs=1e-3) and expit(ratios[0]) != 0.5


def test_calibrators_are_compared_and_so_are_models_each_with_its_fit(world):
    _, tables = world
    (pair,) = of(tables["calibrator_comparisons"], model="m1", dataset="open", variant="clean", slice="all", a="raw", b="platt")
    assert pair["low"] < pair["difference"] < pair["high"]
    (models,) = of(tables["comparisons"], dataset="open", slice="all", metric="brier[held/platt]")
    assert models["low"] < models["difference"] < models["high"] and 0 < models["p"] <= 1


def test_without_such_questions_there_is_no_fit_and_the_reason_is_said(tmp_path, monkeypatch):
    _, tables = scored(lambda i: "test", tmp_path, monkeypatch)
    (row,) = of(tables["scores"], model="m1", dataset="open", variant="clean", slice="all", metric="brier[held/platt]")
    assert row["value"] is None
    assert row["why"] == (
        "0 answers to questions of split `val` that are not scored: a fit needs 20; "
        "give the dataset a larger split `val`, or take part of the scored questions: `fit: half`"
    )
