"""Who is printed in bold, and what stands in a cell that has no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from qualm.runners.reporting.load import read_results
from qualm.runners.reporting.sections import leaderboard
from qualm.runners.reporting.text import Label


def ranks(fabric: Any, rows: dict[str, tuple[float | None, float | None, float | None]], better: bool | None) -> dict[str, str]:
    for row in fabric.scores:
        if row["metric"] == "brier":
            row["value"], row["low"], row["high"] = rows[row["model"]]
    return leaderboard._best(read_results(fabric.stage()), "open", Label("brier", "brier", higher_is_better=better))


@pytest.mark.parametrize(
    ("rows", "better", "expected"),
    [
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, True, {"large": "best"}),
        ({"large": (0.9, 0.75, 0.95), "small": (0.7, 0.6, 0.8)}, True, {"large": "lead"}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, False, {"small": "best"}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, None, {}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.9, 0.85, 0.95)}, True, {}),
        ({"large": (0.9, 0.85, 0.95), "small": (None, None, None)}, True, {}),
        ({"large": (0.9, None, None), "small": (0.7, 0.6, 0.8)}, True, {"large": "lead"}),
    ],
    ids=["clear", "overlap", "lower is better", "no direction", "tie", "alone", "no interval"],
)
def test_bold_only_where_it_is_the_best(fabricate: Callable[..., Any], rows: Any, better: bool | None, expected: dict[str, str]) -> None:
    assert ranks(fabricate(datasets=("open",), n=20), rows, better) == expected


def test_an_undefined_value_is_told_with_its_counts(fabricate: Callable[..., Any]) -> None:
    table = leaderboard.leaderboards(read_results(fabricate(n=20).stage()), "open")[0]
    place = [c.title for c in table.columns].index("brier")
    cell = table.rows[0][1][place]
    assert (cell.value, cell.why, cell.title, cell.rank) == ("undefined", "all 20 unscored", "n = 0, unscored 20", "")


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
            fabric.scores.append({**like, "model": model, "metric": f"auroc[{name}]", **numbers, "n_unscored": 0 if value else 20})
    table = leaderboard.leaderboards(read_results(fabric.stage()), "open")[-1]
    assert (table.caption, table.first) == ("Uncertainty estimators", "Estimator")
    assert [name for name, _ in table.rows] == ["semantic entropy@version=sum", "perplexity", "LUQ", "P(True)"]
    assert [n for _, n in table.groups] == [1] * len(models)
    assert [[cell.rank for cell in cells] for _, cells in table.rows] == [["best"] * len(models), *[[""] * len(models)] * 3]
    assert table.rows[-1][1][0].value == "undefined"
    assert table.counts[0] == "20 (0)"


def test_n_stands_where_columns_are_over_other_rows(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(datasets=("choice", "open"))
    results = read_results(fabric.stage())
    assert leaderboard.parts(results, "open") == ""
    assert leaderboard.parts(results, "choice") == (
        "Columns of the test part are over the rows on which conformal setting ours does not calibrate: 60 rows calibrate, 60 are left "
        "to test on. Others are over all."
    )
    for row in fabric.scores:
        if row["metric"] == "ece[ours]":
            row["metric"], row["n"] = "ece@rows=all[ours]", 120
    answers, sets, estimators = leaderboard.leaderboards(read_results(fabric.stage()), "choice")
    notes = {c.title: c.note for c in answers.columns}
    assert (notes["accuracy"], notes["ECE"], notes["brier"]) == ("n = 60, test part", "rows=all, n = 120", "")
    assert {c.note for t in (sets, estimators) for c in t.columns} == {""}  # all over the same rows
    assert (answers.caption, sets.caption, estimators.caption) == (
        "Answers",
        "Prediction sets: test part",
        "Uncertainty estimators: all rows",
    )
    (open_, *_) = leaderboard.leaderboards(read_results(fabric.stage()), "open")
    assert {c.note for c in open_.columns} == {""} and open_.caption == "Answers"


@pytest.mark.parametrize(("higher", "expected"), [(True, ["large", "small"]), (False, ["small", "large"])])
def test_models_are_ranked_by_one_metric_or_stand_in_the_order_of_the_spec(
    fabricate: Callable[..., Any], higher: bool, expected: list[str]
) -> None:
    fabric = fabricate(datasets=("open",), n=20)
    for row in fabric.scores:
        if row["metric"] == "brier":
            row["value"] = {"large": 0.9, "small": 0.7}[row["model"]]
    results = read_results(fabric.stage())
    assert leaderboard.ranked(results, "open", [Label("brier", "brier", higher_is_better=higher)]) == expected
    assert leaderboard.ranked(results, "open", []) == list(results.models)
