"""Macro averages through the score stage: rows, metrics.json, comparisons, and means over datasets."""

import json
from pathlib import Path

import numpy as np
import pytest

from qualm.registry.sample import COMPARISONS, RANKINGS
from qualm.runners.runtime.records import read_table
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.limits import critical
from qualm.runners.stages import score
from tests.runners.stages.test_score import OUTPUTS, SCORE, World, stage
from tests.support.projects.stages import ref

AVERAGED = {"macro_averages": ["category", "datasets"], "metrics": [ref("accuracy"), ref("set_size"), ref("auroc")], "slices": ["category"]}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return World()


def test_rows_of_macro_averages(world):
    world.run_all(**AVERAGED)
    scores = world.scores()
    for label in ("accuracy", "set_size[ours/lac]", "set_size[ours/mean]", "auroc[perplexity]"):
        row = scores["m1", "choice", "clean", "macro:category", label]
        parts = [scores["m1", "choice", "clean", f"category={c}", label] for c in "ab"]
        assert row["value"] == pytest.approx(np.mean([p["value"] for p in parts]), abs=1e-9)
        assert row["n"] == sum(p["n"] for p in parts) and row["n_unscored"] == sum(p["n_unscored"] for p in parts)
        assert row["interval"] == "macro" and row["low"] < row["value"] < row["high"] and row["level"] == 0.9
        assert row["n_groups"] == scores["m1", "choice", "clean", "all", label]["n_groups"], "groups span both categories, and count once"
    assert scores["m1", "choice", "blur@radius=2.0", "macro:category", "accuracy"]["value"] is not None


def test_means_over_datasets_are_of_independent_values(world):
    world.run_all(**AVERAGED)
    scores = world.scores()
    row = scores["m2", "macro:datasets", "clean", "all", "accuracy"]
    a, b = (scores["m2", name, "clean", "all", "accuracy"] for name in ("choice", "open"))
    assert row["value"] == pytest.approx((a["value"] + b["value"]) / 2, abs=1e-9)
    assert (row["n"], row["n_groups"]) == (a["n"] + b["n"], a["n_groups"] + b["n_groups"])
    # Where both intervals are nearly symmetric, so is the mean's: the root of the summed squares, at the t quantile of twice the freedom.
    half = [(r["high"] - r["low"]) / 2 / critical(0.9, r["n_groups"] - 1) for r in (a, b)]
    expected = critical(0.9, a["n_groups"] + b["n_groups"] - 2) * np.hypot(*half) / 2
    assert (row["high"] - row["low"]) / 2 == pytest.approx(expected, rel=0.08)
    both = scores["m2", "macro:datasets", "clean", "macro:category", "accuracy"]
    means = [scores["m2", name, "clean", "macro:category", "accuracy"]["value"] for name in ("choice", "open")]
    assert both["value"] == pytest.approx(np.mean(means), abs=1e-9) and both["low"] < both["value"] < both["high"]


def test_a_dataset_without_the_metric_leaves_the_mean_over_datasets_undefined_and_is_named(world):
    world.run_all(**AVERAGED)
    row = world.scores()["m1", "macro:datasets", "clean", "all", "set_size[ours/lac]"]
    assert row["value"] is None and row["low"] is None and row["why"] == "open: it was not measured there"


def test_metrics_json_holds_macro_averages(world):
    world.run_all(**AVERAGED)
    of_model = json.loads(Path("results/metrics").read_text())["m1"]
    assert set(of_model) == {
        "choice",
        "choice macro:category",
        "open",
        "open macro:category",
        "macro:datasets",
        "macro:datasets macro:category",
    }
    scores = world.scores()
    assert of_model["choice macro:category"]["accuracy"] == pytest.approx(
        scores["m1", "choice", "clean", "macro:category", "accuracy"]["value"]
    )


@pytest.mark.slow
def test_models_are_compared_and_ranked_by_macro_averages(world):
    compare = {"baseline": "m1", "pairs": [], "margin": None, "correction": "none", "family": "study"}
    world.run_all()
    inputs = world.inputs | {n: f"results/{n}" for n in ("sets", "judgements", "uncertainties")}
    score.run(
        stage("score", SCORE | AVERAGED | {"compare": compare}, inputs, [*OUTPUTS, "comparisons", "rankings", "estimator_comparisons"])
    )
    scores = world.scores()
    tests = [r for r in read_table(Path("results/comparisons"), COMPARISONS).to_pylist() if r["slice"] == "macro:category"]
    (found,) = [t for t in tests if (t["dataset"], t["metric"]) == ("choice", "accuracy")]
    values = [scores[m, "choice", "clean", "macro:category", "accuracy"]["value"] for m in ("m1", "m2")]
    assert [found["value_a"], found["value_b"]] == pytest.approx(values, abs=1e-9)
    assert found["low"] < found["difference"] < found["high"] and 0 < found["p"] <= 1
    assert found["n"] == scores["m1", "choice", "clean", "macro:category", "accuracy"]["n"]
    ranked = [r for r in read_table(Path("results/rankings"), RANKINGS).to_pylist() if r["slice"] == "macro:category"]
    assert {r["candidate"] for r in ranked if (r["dataset"], r["metric"], r["among"]) == ("choice", "accuracy", "models")} == {"m1", "m2"}


def test_an_unknown_field_stops_the_stage_with_the_name_of_the_key(world):
    with pytest.raises(StageError, match="macro_averages: no sample of datasets choice, open has 'colour'"):
        world.run_all(macro_averages=["colour"])
