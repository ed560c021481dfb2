"""Who is printed in bold, and what stands in a cell that has no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.sample import RANKINGS
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections import leaderboard
from qualm.runners.runtime.records import write_table
from tests.runners.reporting.held import held


def ranked_rows(metric: str, among: str, candidates: dict[str, tuple[bool, bool]], model: str | None = None) -> list[dict[str, Any]]:
    """Rows of the table of rankings: candidate -> (told apart from all others, not significantly worse than a better one)."""
    column = {"dataset": "open", "variant": "clean", "slice": "all", "metric": metric, "among": among, "model": model}
    column |= {"value": 0.5, "low": 0.4, "high": 0.6, "p_adjusted": 0.5, "candidates": len(candidates), "n": 20}
    leader = next(iter(candidates))
    return [column | {"candidate": name, "leader": leader, "is_best": best, "may_be_best": may} for name, (best, may) in candidates.items()]


def with_rankings(stage: Any, rows: list[dict[str, Any]]) -> Any:
    path = Path("rankings.parquet")
    write_table(path, rows, RANKINGS)
    stage.inputs["rankings"] = str(path)
    return read_report(stage)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ({"large": (True, True), "small": (False, False)}, {"large": "best"}),
        ({"large": (False, True), "small": (False, True)}, {}),
        ({"large": (False, True), "small": (False, True), "tiny": (False, False)}, {"large": "lead", "small": "lead"}),
    ],
    ids=["told apart", "no evidence", "shared"],
)
def test_bold_only_where_a_test_tells_it_apart(
    fabricate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidates: Any, expected: dict[str, str]
) -> None:
    stage = fabricate(datasets=("open",), n=20).stage()
    monkeypatch.chdir(tmp_path)
    stage.inputs = {k: v for k, v in stage.inputs.items()}
    assert with_rankings(stage, ranked_rows("brier", "models", candidates)).ranks("models", "open", "brier") == expected


def test_without_rankings_nothing_is_marked(fabricate: Callable[..., Any]) -> None:
    results = read_report(fabricate(datasets=("open",), n=20).stage())
    assert not any(cell.rank for t in leaderboard.leaderboards(results, "open") for _, cells in t.rows for cell in cells)


def test_an_undefined_value_is_told_with_its_counts(fabricate: Callable[..., Any]) -> None:
    table = leaderboard.leaderboards(read_report(fabricate(n=20).stage()), "open")[0]
    place = [c.title for c in table.columns].index("brier")
    cell = table.rows[0][1][place]
    assert (cell.value, cell.why, cell.title, cell.rank) == (
        "undefined",
        "no answer was judged",
        "no answer was judged; n = 0, unscored 20",
        "",
    )


def test_more_estimators_than_models_stand_in_rows(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",), n=20)
    models = sorted({row["model"] for row in fabric.scores})
    values = {"perplexity": 0.7, "semantic_entropy@version=sum": 0.9, "p_true": None, "luq": 0.6}
    assert len(values) > len(models)
    fabric.scores[:] = [row for row in fabric.scores if "auroc" not in row["metric"] and "auarc" not in row["metric"]]
    like = next(row for row in fabric.scores if row["slice"] == "all" and row["variant"] == "clean")
    for model in models:
        for name, value in values.items():
            numbers = {"value": value, "low": value and value - 0.05, "high": value and value + 0.05, "n": 20 if value else 0}
            shares = {"n_unscored": 0 if value else 20, "scored_share": 1.0 if value else 0.0, "chance": 0.5 if value else None}
            fabric.scores.append({**like, "model": model, "metric": f"auroc[{name}]", **numbers, **shares})
    rankings = [
        row
        for model in models
        for row in ranked_rows("auroc", "estimators", {"semantic_entropy@version=sum": (True, True), "luq": (False, False)}, model)
    ]
    table = leaderboard.leaderboards(with_rankings(fabric.stage(), rankings), "open")[-1]
    assert (table.caption, table.first) == ("Uncertainty estimators", "Estimator")
    assert [name for name, _ in table.rows] == ["semantic entropy@version=sum", "perplexity", "LUQ", "P(True)"]
    assert [n for _, n in table.groups] == [1] * len(models)
    assert [[cell.rank for cell in cells] for _, cells in table.rows] == [["best"] * len(models), *[[""] * len(models)] * 3]
    assert table.rows[-1][1][0].value == "undefined"
    assert (table.counts[0], table.counts[-1]) == ("20", "0, 0% scored")
    assert table.chance == ["0.50"] * len(models)


def test_chance_stands_below_estimators(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",), n=20)
    kept = [row for row in fabric.scores if "[" not in row["metric"]]
    ones = [row for row in kept if row["metric"] == "accuracy"]
    fabric.scores[:] = [
        *kept,
        *(
            {**row, "metric": f"{m}[{e}]", "chance": level(row["value"])}
            for row in ones
            for m, level in (("auroc", lambda _: 0.5), ("auarc", lambda accuracy: accuracy), ("augrc", lambda _: None))
            for e in ("p_true", "luq", "perplexity")
        ),
    ]
    results = read_report(fabric.stage())
    answers, estimated = leaderboard.leaderboards(results, "open")
    assert answers.chance == [] and estimated.first == "Estimator"
    accuracies = [results.value(model, "open", "accuracy") or 0 for model, _ in estimated.groups]
    assert len(set(accuracies)) > 1
    assert estimated.chance == [of for accuracy in accuracies for of in ("0.50", f"{accuracy:.2f}", "")]


def test_chance_of_models_that_are_right_unequally_often_is_a_range(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",), n=20)
    kept = [row for row in fabric.scores if not row["metric"].startswith(("auroc", "auarc"))]
    like = [row for row in kept if row["metric"] == "accuracy"]
    fabric.scores[:] = [*kept, *({**row, "metric": "aurc[p_true]", "chance": row["value"] and 1 - row["value"]} for row in like)]
    results = read_report(fabric.stage())
    table = leaderboard.leaderboards(results, "open")[-1]
    wrong = sorted(1 - (results.value(model, "open", "accuracy") or 0) for model in results.models)
    assert table.first == "Model" and table.chance == [f"{wrong[0]:.2f} – {wrong[-1]:.2f}"]


@pytest.mark.slow
def test_n_stands_where_columns_are_over_other_rows(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("choice", "open"))
    results = read_report(fabric.stage())
    assert leaderboard.describe_rows(results, "open") == ""
    assert leaderboard.describe_rows(results, "choice") == (
        "Columns of the test part use the rows on which conformal setting ours does not calibrate: 60 rows calibrate, 60 are "
        "tested. The other columns use all rows."
    )
    for row in fabric.scores:
        if row["metric"] == "ece[ours]":
            row["metric"], row["n"] = "ece@rows=all[ours]", 120
    answers, sets, estimators = leaderboard.leaderboards(read_report(fabric.stage()), "choice")
    notes = {c.title: c.note for c in answers.columns}
    assert (notes["accuracy"], notes["ECE"], notes["brier"]) == ("n = 60, test part", "rows=all, n = 120, not ranked: biased", "")
    assert {c.note for t in (sets, estimators) for c in t.columns} == {""}  # all over the same rows
    assert (answers.caption, sets.caption, estimators.caption) == (
        "Answers",
        "Prediction sets: test part",
        "Uncertainty estimators: all rows",
    )
    (open_, *_) = leaderboard.leaderboards(read_report(fabric.stage()), "open")
    assert {c.note for c in open_.columns} == {"", "not ranked: biased"} and open_.caption == "Answers"


def test_coverage_has_its_target_and_band_in_the_title(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("open",), n=20)
    for row in fabric.scores:
        if row["metric"] == "brier":
            row |= {"value": 0.9, "low": 0.8, "high": 1.0, "target": 0.9, "band_low": 0.8, "band_high": 0.95, "promise": "at least 0.9"}
    table = leaderboard.leaderboards(read_report(fabric.stage()), "open")[0]
    place = [c.title for c in table.columns].index("brier")
    assert table.rows[0][1][place].title.endswith("; target 0.90, band 0.80 – 0.95: within")


def test_all_that_is_shown(fabricate: Callable[..., Any], tmp_path: Path) -> None:
    fabric = fabricate(models=("large", "small", "tiny"), settings=("published", "ours"))
    for row in fabric.scores:
        place = ("large", "small", "tiny").index(row["model"])
        if row["metric"] == "accuracy" and row["variant"] == "clean":
            row |= {"value": (0.5, 0.75, None)[place], "n": (120, 119, 0)[place], "n_unscored": (0, 1, 120)[place]}
        elif row["metric"] == "ece[ours]" and row["dataset"] == "choice":
            row |= {"metric": "ece@rows=all[ours]", "n": 1200 + place, "low": None}
        elif row["metric"] == "coverage[ours/aps]":
            row |= {"target": 0.9, "band_low": 0.85, "band_high": 0.905, "promise": "at least 0.9"}
        elif row["metric"] == "auroc[perplexity]" and row["dataset"] == "open":
            row["metric"] = f"auroc[{('luq', 'p_true', 'perplexity')[place]}]"
    rankings = [
        *ranked_rows("accuracy", "models", {"small": (False, True), "large": (False, True), "tiny": (False, False)}),
        *ranked_rows("auroc", "estimators", {"luq": (True, True), "mean_token_entropy": (False, False)}, "large"),
    ]
    results = with_rankings(fabric.stage(), rankings)
    shown = {d: [leaderboard.describe_rows(results, d), *leaderboard.leaderboards(results, d)] for d in results.datasets}
    held("leaderboards", shown, tmp_path)
