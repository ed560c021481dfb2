"""`qualm.load`: results of a spec that was run, as tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import qualm
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.plugins import registry
from tests.runners.reporting.pair_results import build

MADE_OF = [name for name in registry.get("metrics", "lave_idk_accuracy").reads if name != "weights"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> qualm.Results:
    root = tmp_path_factory.mktemp("built")
    build(root)
    return qualm.load("small", root)


@pytest.mark.slow
def test_scores_are_those_of_the_file_with_their_labels_in_parts(results: qualm.Results) -> None:
    scores = results.scores
    written = results.table("scores")
    file = pl.read_parquet(results.root / "results/small/scores.parquet")
    assert scores.equals(written) and scores.equals(file)
    assert {"rules"} <= set(scores["judge"].drop_nulls())
    assert set(scores["metric"]) <= set(dir(qualm.metrics))
    assert all(label.startswith(name) for label, name in scores.select("label", "metric").rows())


def test_answers_hold_what_scores_are_made_of(results: qualm.Results) -> None:
    scores = results.scores.filter((pl.col("slice") == "all") & (pl.col("variant") == "clean") & (pl.col("label") == "lave_idk_accuracy"))
    assert scores.height
    for row in scores.to_dicts():
        answers = results.answers(row["model"], row["dataset"])
        assert answers["correct"].drop_nulls().len() == row["n"]
        assert qualm.metrics.lave_idk_accuracy(*(answers[name] for name in MADE_OF)) == pytest.approx(row["value"])
    assert answers["sample_id"].n_unique() == answers.height
    assert {"question", "text", "pred_is_idk", "category"} <= set(answers.columns)


def test_scoring_a_table_of_answers_gives_the_scores_of_the_spec(results: qualm.Results) -> None:
    model, dataset = results.models[0], results.datasets[0]
    again = qualm.score(results.answers(model, dataset), ["lave_idk_accuracy"], groups="group", resamples=200).row(0, named=True)
    own = results.scores.filter(
        (pl.col("model") == model) & (pl.col("dataset") == dataset) & (pl.col("label") == "lave_idk_accuracy") & (pl.col("slice") == "all")
    ).row(0, named=True)
    assert again["value"] == pytest.approx(own["value"]) and (again["n"], again["n_groups"]) == (own["n"], own["n_groups"])
    np.testing.assert_allclose([again["low"], again["high"]], [own["low"], own["high"]], atol=0.02)


def test_all_models_and_samples_and_pictures(results: qualm.Results) -> None:
    assert set(results.answers()["model"]) == set(results.models)
    dataset = results.datasets[0]
    samples = results.samples(dataset)
    picture = results.image(dataset, samples["sample_id"][0])
    assert picture is not None and picture.size[0] > 0
    (same,) = results.images(dataset, samples["sample_id"][0])
    assert same.tobytes() == picture.tobytes()
    assert results.generations(results.models[0], dataset)["draw"].min() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.table("ranking"), "has no table 'ranking'"),
        (lambda r: r.answers("bases"), "has no model 'bases'; did you mean 'base'"),
        (lambda r: r.answers(variant="blur"), "no answers under the variant 'blur'"),
        (lambda r: r.generations("nobody", "x"), "no answers of a model 'nobody'"),
        (lambda r: r.generations("base", "x"), "was not asked 'x'"),
        (lambda r: r.samples("x"), "has no dataset 'x'"),
        (lambda r: r.image(r.datasets[0], "x"), "has no sample 'x'"),
    ],
)
def test_names_that_there_are_not(results: qualm.Results, call, message) -> None:
    with pytest.raises(ProjectError, match=message):
        call(results)


def test_a_damaged_table_is_named(results: qualm.Results) -> None:
    file = results.root / "results/small/rankings.parquet"
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ProjectError, match=r"rankings\.parquet: not a readable Parquet table.*; `qualm run SPEC` re-creates it"):
            results.table("rankings")
    finally:
        file.write_bytes(whole)


def test_a_spec_that_was_not_run_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"no params\.yaml"):
        qualm.load("small", tmp_path)
