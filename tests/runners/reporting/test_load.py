"""What the report looks up in results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qualm.registry.sample import CLEAN
from qualm.runners.reporting import figures
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.text import decimals, rounded
from tests.runners.reporting.made_results import made_results, score


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
    results = read_report(fabric.stage())
    assert [a.estimator for a in results.headline("open", 9) if a.plugin == "auroc"] == ["luq"]
    by_variant = figures.variants(results, "open")
    assert "AUROC (LUQ) ↑" in [p.title for p in by_variant.panels] and "AUROC: of the estimator with the highest mean" in by_variant.caption


def test_a_curve_by_confidence_has_no_number_of_an_estimator_beside_it(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    row = {"variant": CLEAN, "slice": "all", "n": 40, "n_unscored": 0, "low": None, "high": None, "dataset": "open", "model": "large"}
    fabric.scores += [row | {"metric": "auarc[deg_mat]", "value": 0.7}]
    without = figures.risk_coverage(read_report(fabric.stage()), "open")
    assert [p.note for p in without.panels] == ["", ""]
    fabric.scores += [row | {"metric": "risk_coverage", "value": 0.125}]
    assert [p.note for p in figures.risk_coverage(read_report(fabric.stage()), "open").panels] == ["AURC 0.125", ""]


def test_the_main_setting_is_ours_else_the_first_that_is_no_share_of_a_study():
    def main(*settings):
        rows = [{"model": "m", "dataset": "d", "setting": s, "score": "lac", "alpha": 0.1} for s in settings]
        return made_results([score("accuracy", 0.5)], thresholds=rows).main_setting

    assert main("share@fraction=0.1", "published", "other") == "published"
    assert main("published", "ours") == "ours" and main() == ""
    assert main("share@fraction=0.1", "share@fraction=0.3") == "share@fraction=0.1"


def test_a_column_has_the_decimals_of_its_narrowest_interval(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",))
    for row in fabric.scores:
        if (row["model"], row["metric"], row["variant"], row["slice"]) == ("small", "accuracy", CLEAN, "all"):
            row |= {"low": row["value"] - 0.3, "high": row["value"] + 0.3}
    results = read_report(fabric.stage())
    cells = [results.cells[model, "open", "accuracy"] for model in ("large", "small")]
    assert [decimals({"low": cell["low"], "high": cell["high"]}) for cell in cells] == [2, 1]
    assert [rounded(cell) for cell in cells] == ["0.90", "0.75"]
