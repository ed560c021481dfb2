from pathlib import Path

import polars as pl
import pytest

from qualm.registry.sample import BLAMES, COMPARISONS
from qualm.runners.runtime.records import write_table
from tests.bench import result_pages
from tests.bench.result_pages import (
    BLOCK,
    COLUMNS,
    MADE,
    MODALITIES,
    MODELS,
    PERTURBED,
    ROOT,
    attribution_finding,
    modality_table,
    model_table,
    rewrite,
)
from tests.support.data.score_files import write_scores


def test_every_block_of_the_pages_is_made_once() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs" / "results").glob("*.md")]
    blocks = [found[2] for page in pages for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert sorted(blocks) == sorted(MADE)
    assert all(found[0].count("\n") > 1 for page in pages for found in BLOCK.finditer(page.read_text(encoding="utf-8"))), "an empty block"


def test_the_table_of_models_has_intervals_and_dashes(tmp_path: Path) -> None:
    row = {"variant": "clean", "slice": "all", "n": 10, "n_unscored": 0}
    rows = [
        row | {"model": model, "dataset": dataset, "metric": metric, "value": 0.5, "low": 0.4, "high": 0.6}
        for model in MODELS.values()
        for dataset, metric in COLUMNS.values()
        if (model, metric) != ("base", "ece_idk")
    ]
    write_scores(tmp_path / "scores.parquet", rows)
    write_table(tmp_path / "comparisons.parquet", [], COMPARISONS)
    heads, _, first, *others = model_table(tmp_path).splitlines()
    assert heads.startswith("| model | confidence-weighted accuracy (95% CI) | ECE (IDK) |")
    assert first == "| base | .500 (.400–.600) | – | .500 | .500 | .500 | .500 | .500 | .500 |"
    assert len(others) == len(MODELS) - 1


def test_the_table_of_modalities_names_the_best_estimator_over_changed_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimators = ("p_true", "mean_token_entropy", "deg_mat", "pointwise_mutual_information")
    ends = {"low": 0.2, "high": 0.9}
    rows = [
        {"metric": f"{metric}[{name}]" if estimator else metric, "variant": modality, "slice": part, "value": value + 0.1 * i} | ends
        for metric, estimator in sorted(set(PERTURBED.values()))
        for i, name in enumerate(estimators if estimator else [""])
        for modality in MODALITIES.values()
        for part, value in (("changed", 0.3), ("all", 0.5))
    ]  # fmt: skip
    monkeypatch.setattr(result_pages, "scores", lambda folder, name: pl.DataFrame(rows))
    lines = modality_table(tmp_path).splitlines()
    assert lines[2].split(" | ")[1] == ".60 (.20–.90) pointwise mutual information"
    assert lines[-1] == "| HCC, P(True) | .30 (.20–.90) | .30 (.20–.90) | .30 (.20–.90) |"


def test_a_block_is_written_from_its_run_and_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "attribution_scenes"
    write_scores(folder / "scores.parquet", [])
    blame = {"model": "base", "n": 9, "accuracy": 0.671, "accuracy_low": 0.622, "accuracy_high": 0.719, "floor": 0.5}
    write_table(folder / "blames.parquet", [blame | {"held_out": held} for held in ("group", "group and kind")], BLAMES)
    other = "<!-- made: uncertainty_scenes/findings -->\nas it was\n<!-- end -->"
    missing: set[str] = set()
    text = rewrite(f"before\n<!-- made: attribution_scenes/finding -->\nold\n<!-- end -->\n{other}\n", tmp_path, missing)
    assert text == f"before\n<!-- made: attribution_scenes/finding -->\n{attribution_finding(folder)}\n<!-- end -->\n{other}\n"
    assert "in .67 (.62–.72) of the cases; the majority class reaches .50." in text
    assert missing == {"uncertainty_scenes"}
