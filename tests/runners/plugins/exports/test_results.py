"""Scores laid out for a paper."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from qualm.registry.sample import RANKINGS
from qualm.runners.plugins.exports import ExportContext, ExportError
from qualm.runners.plugins.exports._results import Value, caption, cells, format_value, result_tables
from qualm.runners.runtime.records import write_table
from tests.support.data.score_files import write_scores

SCORING: dict[str, Any] = {
    "metrics": [
        {"label": "accuracy", "plugin": "accuracy", "args": {}},
        {"label": "auroc", "plugin": "auroc", "args": {"right_from": 0.5}},
        {"label": "set_size", "plugin": "set_size", "args": {}},
    ],
    "conformal": [{"label": "ours"}],
}


def row(model: str, metric: str, value: float | None, **more: Any) -> dict[str, Any]:
    ends = {"low": None, "high": None} if value is None else {"low": value - 0.1, "high": value + 0.1}
    base = {"model": model, "dataset": "d", "variant": "clean", "slice": "all", "metric": metric, "value": value, "n": 60, "n_unscored": 0}
    return base | ends | {"level": 0.95, "n_groups": 20, "interval": "t"} | more


def rank(candidate: str, **more: Any) -> dict[str, Any]:
    place = {"dataset": "d", "variant": "clean", "slice": "all", "metric": "accuracy", "among": "models", "model": None}
    return place | {"candidate": candidate, "may_be_best": True, "is_best": False, "value": 0.5, "candidates": 2, "n": 60} | more


ROWS = [
    row("a", "accuracy", 0.8),
    row("b_c", "accuracy", 0.5),
    row("a", "auroc[perplexity]", 0.7),
    row("a", "auroc[p_true]", None),
    row("b_c", "auroc[perplexity]", -0.25),
    row("a", "set_size[ours/lac]", 2.0),
    row("a", "accuracy", 0.4, slice="category=x"),
    row("a", "accuracy", 0.3, variant="blur@radius=2"),
    row("a", "accuracy", 0.9, dataset="e", level=None, n_groups=None, low=None, high=None),
]
RANKS = [
    rank("a", is_best=True),
    rank("b_c", may_be_best=False),
    rank("perplexity", metric="auroc", among="estimators", model="a"),
    rank("a", slice="category=x"),
    rank("a/perplexity", metric="auroc", among="models and estimators"),
]


def context(folder: Path, rows: list[dict[str, Any]] = ROWS, **more: Any) -> ExportContext:
    for name in ("made", "out"):
        (folder / name).mkdir(exist_ok=True)
    write_scores(folder / "made" / "scores.parquet", rows, params=more.get("scoring", SCORING))
    write_table(folder / "made" / "rankings.parquet", RANKS, RANKINGS)
    results = {name: folder / "made" / f"{name}.parquet" for name in ("scores", "rankings")}
    given = {"spec": "bench", "title": "A | bench", "revision": "abc123", "results": results, "scoring": SCORING}
    return ExportContext(**{"folder": folder / "out", "parts": (), "time": datetime(2026, 1, 1, tzinfo=UTC)} | given | more)


def test_models_by_metric_and_estimators_by_model(tmp_path: Path) -> None:
    tables = {table.name: table for table in result_tables(context(tmp_path), "clean", "all")}
    assert list(tables) == ["d", "d-auroc", "d-set_size", "e"]
    assert tables["d"].columns == [("accuracy", True)] and tables["d-set_size"].columns == [("a", False)]
    basis = (0.95, "60 questions in 20 groups")
    assert dict(cells(tables["d"])) == {"a": [Value(0.8, 0.7, 0.9, "best", *basis)], "b_c": [Value(0.5, 0.4, 0.6, "", *basis)]}
    by_estimator = dict(cells(tables["d-auroc"]))
    assert by_estimator["perplexity"][0] is not None and by_estimator["perplexity"][0].rank == "perhaps"
    assert by_estimator["P(True)"] == [Value(None, None, None, "", *basis), None]
    assert caption(tables["e"], {}) == "e: models by metric. 60 questions. ↑: higher is better."
    models = caption(tables["d"], {"family": "metric"})
    assert "Bold" in models and "†" not in models and "tests of one metric" in models and "95% intervals" in models
    assert "95%" not in caption(tables["d"], {}, intervals=False)


def test_a_caption_says_which_values_are_of_other_questions(tmp_path: Path) -> None:
    rows = [row(model, metric, 0.5) for model in ("a", "b") for metric in ("accuracy", "set_size")]
    of_columns = [r | ({"n": 30} if r["metric"] == "set_size" else {}) for r in rows]
    of_rows = [r | ({"n": 30, "n_unscored": 4} if r["model"] == "b" else {}) for r in rows]
    of_cells = [r | ({"n": 30} if (r["model"], r["metric"]) == ("b", "set_size") else {}) for r in rows]
    expected = [
        "accuracy: 60 questions in 20 groups; set size: 30 questions in 20 groups.",
        "a: 60 questions in 20 groups; b: 34 questions, 4 of them unscored in 20 groups.",
        "accuracy of a, set size of a, accuracy of b: 60 questions in 20 groups; set size of b: 30 questions in 20 groups.",
    ]
    for given, words_of in zip((of_columns, of_rows, of_cells), expected, strict=True):
        (table,) = result_tables(context(tmp_path, given), "clean", "all")
        assert f"d: models by metric. {words_of} In parentheses: 95% intervals." in caption(table, {})


def test_a_caption_names_variant_and_slice(tmp_path: Path) -> None:
    made = context(tmp_path)
    for variant, part, start in (
        ("blur@radius=2", "all", "d under blur@radius=2: models"),
        ("clean", "category=x", "d, category=x: models"),
    ):
        assert caption(result_tables(made, variant, part)[0], {}).startswith(start)


def test_of_two_rankings_of_one_column_the_larger_is_marked(tmp_path: Path) -> None:
    """Dear models were asked a part of the questions, and are ranked among each other."""
    made = context(tmp_path, [*ROWS, row("dear", "accuracy", 0.95), row("c", "accuracy", 0.6)])
    larger = [rank(m, candidates=3, is_best=m == "a", may_be_best=m == "a") for m in ("a", "c", "b_c")]
    write_table(tmp_path / "made" / "rankings.parquet", [rank("dear", is_best=True), rank("dearer"), *larger], RANKINGS)
    table = next(t for t in result_tables(made, "clean", "all") if t.name == "d")
    assert {model: value[0].rank for model, value in cells(table)} == {"a": "best", "b_c": "", "dear": "", "c": ""}


def test_a_part_of_models_data_sets_slices_and_variants(tmp_path: Path) -> None:
    def values(variant: str = "clean", part: str = "all", **asked: Any) -> list[float | None]:
        tables = result_tables(context(tmp_path, **asked), variant, part)
        return [value.value for table in tables for _, values in cells(table) for value in values if value]

    assert values(part="category=x") == [0.4] and values(variant="blur@radius=2") == [0.3]
    assert values(models_asked=("b_c",)) == [0.5, -0.25] and values(datasets_asked=("e",)) == [0.9]


def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no slice 'category=y' in these results; there are: all, category=x"):
        result_tables(context(tmp_path), "clean", "category=y")
    with pytest.raises(ExportError, match="no scores of these models"):
        result_tables(context(tmp_path, models_asked=("b_c",)), "clean", "category=x")
    with pytest.raises(ExportError, match="'bench' has no scores; `qualm run bench`"):
        result_tables(context(tmp_path, results={}), "clean", "all")


def test_words() -> None:
    assert format_value(Value(-0.12345, -0.2, 0.1), 2, "−") == ("−0.12", "−0.20 to 0.10")
    assert format_value(Value(0.5), 3) == ("0.500", "") and format_value(Value(None), 3) == ("undefined", "")
