"""The report's own reading of answers agrees with the columns that the score stage computes its metrics from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from qualm.registry.sample import CLEAN, JUDGEMENTS
from qualm.runners.data.aligned import read_samples
from qualm.runners.reporting import figures
from qualm.runners.reporting.load import read_results
from qualm.runners.reporting.sections.answers import Judgements
from qualm.runners.runtime.records import write_table
from qualm.runners.scoring.measuring.read_cells import read_cells
from qualm.runners.scoring.measuring.tables import Tables
from tests.runners.reporting.made_results import made_results, score


def test_answers_are_those_that_were_scored(fabricate: Callable[..., Any]) -> None:
    stage = fabricate(n=60).stage()
    results = read_results(stage)
    scoring = replace(stage, params={"judge": "rules", "confidence": "sequence"})
    compared = 0
    for dataset, folder in stage.inputs["datasets"].items():
        samples = read_samples(dataset, folder)
        for cell in read_cells(scoring, samples, Tables(scoring)):
            if cell.variant != CLEAN:
                continue
            mine = results.answers.filter((pl.col("model") == cell.model) & (pl.col("dataset") == dataset))
            assert mine["sample_id"].to_list() == samples.ids.to_pylist()
            for column in ("correct", "confidence"):
                np.testing.assert_allclose(mine[column].cast(pl.Float64).fill_null(np.nan), cell.columns[column], rtol=1e-6)
            compared += 1
    assert compared == 4


def test_small_plots_rank_by_the_best_estimator(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    row = {"variant": CLEAN, "slice": "all", "n": 40, "n_unscored": 0, "low": None, "high": None, "dataset": "open"}
    values = {"deg_mat": (0.7, 0.7), "luq": (0.9, None), "perplexity": (0.8, 0.6)}
    fabric.scores = [r for r in fabric.scores if not r["metric"].startswith("auroc")]
    fabric.scores += [
        row | {"model": m, "metric": f"auroc[{e}]", "value": v}
        for e, pair in values.items()
        for m, v in zip(("large", "small"), pair, strict=True)
    ]
    results = read_results(fabric.stage())
    assert [a.estimator for a in results.headline("open", 9) if a.plugin == "auroc"] == ["luq"]
    by_variant = figures.variants(results, "open")
    assert (
        "AUROC (LUQ) ↑" in [p.title for p in by_variant.panels] and "AUROC: of the estimator with the highest value" in by_variant.caption
    )


def test_a_curve_by_confidence_has_no_number_of_an_estimator_beside_it(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    row = {"variant": CLEAN, "slice": "all", "n": 40, "n_unscored": 0, "low": None, "high": None, "dataset": "open", "model": "large"}
    fabric.scores += [row | {"metric": "auarc[deg_mat]", "value": 0.7}]
    without = figures.risk_coverage(read_results(fabric.stage()), "open")
    assert [p.note for p in without.panels] == ["", ""]
    fabric.scores += [row | {"metric": "risk_coverage", "value": 0.125}]
    assert [p.note for p in figures.risk_coverage(read_results(fabric.stage()), "open").panels] == ["AURC 0.125", ""]


def test_options_in_words_are_shown_as_the_judge_of_options_rated_them(tmp_path: Path) -> None:
    """Two judges rated one answer; scores are by the judge of options, and so is the page."""
    judged = {"model": "m", "dataset": "d", "sample_id": "s", "variant": "clean", "draw": 0, "pred_is_idk": False, "parse_ok": True}
    rows = [judged | {"judge": "rules", "rating": 1.0}, judged | {"judge": "first_character", "rating": 0.0}]
    write_table(tmp_path / "j.parquet", rows, JUDGEMENTS)
    samples = {"d": pl.DataFrame({"sample_id": ["s"], "choices": [["x", "y"]]})}
    for of_choices, rating in (({"d": "first_character"}, 0.0), ({}, 1.0)):
        judgements = Judgements(str(tmp_path / "j.parquet"), "rules", {}, of_choices, samples)
        assert (judgements.of("m", "d")["rating"][0], judgements.names) == (rating, "rules")


def test_the_main_setting_is_ours_else_the_first_that_is_no_share_of_a_study():
    def main(*settings):
        rows = [{"model": "m", "dataset": "d", "setting": s, "score": "lac", "alpha": 0.1} for s in settings]
        return made_results([score("accuracy", 0.5)], thresholds=rows).main_setting

    assert main("share@fraction=0.1", "published", "other") == "published"
    assert main("published", "ours") == "ours" and main() == ""
    assert main("share@fraction=0.1", "share@fraction=0.3") == "share@fraction=0.1"
