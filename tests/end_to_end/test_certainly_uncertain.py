"""The CertainlyUncertain benchmark on scenes, shrunk, from a clone by real `dvc repro`: pairs, tuning, abstention, comparison, report."""

from __future__ import annotations

import json

import polars as pl
import pytest
import yaml

from qualm.registry.sample import SAMPLES
from qualm.runners.runtime.records import read_table
from tests.end_to_end.clone import Clone, make_clone

SPEC = "certainly_uncertain_scenes"
R = f"results/{SPEC}"
CATEGORIES = {"epistemic/knowledge", "epistemic/complexity", "epistemic/extraneous", "aleatoric/temporal", "aleatoric/ambiguity"}

pytestmark = pytest.mark.slow


def smaller(text: str) -> str:
    """The spec with few scenes, few steps, and one fine-tune less."""
    spec = yaml.safe_load(text)
    spec["datasets"]["scenes"] |= {"train": 60, "val": 40, "test": 40}
    spec["datasets"]["standard"] |= {"val": 24, "test": 24}
    del spec["finetunes"]["sft_ours_other"]
    for (recipe,) in map(dict.values, spec["finetunes"].values()):
        recipe |= {"steps": 3, "batch": 8}
    spec["inference"]["max_new_tokens"] = 4
    spec["compare"]["interval"]["bootstrap"] = 20
    spec["compare"]["pairs"] = [pair for pair in spec["compare"]["pairs"] if "sft_ours_other" not in pair]
    return yaml.safe_dump(spec, sort_keys=False)


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    clone = make_clone(tmp_path_factory.mktemp("cu") / "clone", SPEC, forked=True)
    spec = clone.root / f"specs/{SPEC}.yaml"
    spec.write_text(smaller(spec.read_text()))
    clone.run("dvc", "pull", "-q", "registry/data/scene-vlm-base.dvc")
    clone.qualm("compile")
    assert clone.repro() == set(clone.forecast())
    return clone


def test_pairs_are_whole_proved_and_of_every_category(rebuilt: Clone) -> None:
    samples = pl.read_parquet(rebuilt.root / R / "data/ours/samples.parquet")
    assert set(samples["category"]) == CATEGORIES
    both = samples.group_by("pair_id").agg(pl.len(), pl.col("answerable").sum())
    assert both["len"].unique().to_list() == [2]
    assert both["answerable"].unique().to_list() == [1]
    rows = read_table(rebuilt.root / R / "data/ours/samples.parquet", SAMPLES).to_pylist()
    assert all(dict(row["meta"]).get("proof") for row in rows if not row["answerable"])
    assert samples.group_by("group").agg(pl.col("split").n_unique())["split"].unique().to_list() == [1]


def test_every_model_is_scored_on_the_test_split_alone(rebuilt: Clone) -> None:
    samples = pl.read_parquet(rebuilt.root / R / "data/ours/samples.parquet")
    scores = pl.read_parquet(rebuilt.root / R / "scores.parquet").filter(pl.col("dataset") == "ours")
    models = set(scores["model"])
    assert {"base", "base+thresholding", "base+risk_control", "sft_ours", "sft_other", "rtune_ours", "dpo_ours"} <= models
    assert {"base+blind_refuser", "base+swapped_picture", "sft_ours+swapped_picture"} <= models
    whole = scores.filter(pl.col("slice") == "all", pl.col("label") == "lave_idk_accuracy")
    assert set(whole["n"]) == {samples.filter(pl.col("split") == "test").height}
    assert {"category=epistemic", "category=aleatoric", "category=epistemic/extraneous"} <= set(scores["slice"])


def test_models_are_compared_with_the_base_in_pairs(rebuilt: Clone) -> None:
    rows = pl.read_parquet(rebuilt.root / R / "comparisons.parquet")
    assert rows.filter(pl.col("metric") == "confidence_weighted_accuracy", pl.col("slice") == "all").height > 6


def test_the_report_has_the_papers_table(rebuilt: Clone) -> None:
    page = (rebuilt.root / R / "report.html").read_text(encoding="utf-8")
    for text in ("base+thresholding", "sft_ours", "epistemic", "aleatoric"):
        assert text in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_tuned_models_are_listed_as_artifacts(rebuilt: Clone) -> None:
    text = (rebuilt.root / "dvc.yaml").read_text()
    assert f"path: {R}/models/sft_ours" in text


def test_a_second_repro_executes_nothing_and_a_threshold_costs_no_inference(rebuilt: Clone) -> None:
    assert rebuilt.repro() == set()
    spec = rebuilt.root / f"specs/{SPEC}.yaml"
    before = spec.read_text()
    assert "alpha: 0.1" in before
    spec.write_text(before.replace("alpha: 0.1", "alpha: 0.2"))
    rebuilt.qualm("compile")
    assert rebuilt.repro() == {"abstain", "score", "report"}
    spec.write_text(before)


def test_statistics_are_printed(rebuilt: Clone) -> None:
    assert "extraneous" in rebuilt.qualm("stats", SPEC).stdout
    assert json.loads((rebuilt.root / R / "data/ours/statistics.json").read_text())
