"""Tables as they are, in CSV."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from qualm.runners.plugins.exports import ExportError
from qualm.runners.plugins.exports.csv import csv
from qualm.runners.runtime.records import RecordError
from tests.runners.plugins.exports.test_results import RANKS, ROWS, context


def test_every_table_with_labels_in_parts(tmp_path: Path) -> None:
    made = context(tmp_path)
    csv(made)
    scores = pl.read_csv(made.folder / "scores.csv")
    assert scores["label"].to_list() == [row["metric"] for row in ROWS] and scores["value"].to_list() == [row["value"] for row in ROWS]
    assert scores["metric"].to_list()[:4] == ["accuracy", "accuracy", "auroc", "auroc"]
    assert scores["estimator"].to_list()[2:4] == ["perplexity", "p_true"] and scores["nonconformity"][5] == "lac"
    assert pl.read_csv(made.folder / "rankings.csv").height == len(RANKS) and made.counts["tables"] == 3


def test_the_tables_for_a_paper_are_one_file_with_labels_and_captions(tmp_path: Path) -> None:
    made = context(tmp_path)
    csv(made)
    tables = pl.read_csv(made.folder / "tables.csv")
    first, undefined = tables.row(0, named=True), tables.filter(pl.col("row") == "P(True)").row(0, named=True)
    assert list(first.values())[2:] == ["a", "accuracy", 0.8, 0.7, 0.9, "best"] and first["table"] == "d"
    assert first["caption"].startswith("d: models by metric. 60 questions in 20 groups. low, high: 95% intervals.")
    assert undefined["value"] is None and undefined["column"] == "a"


def test_a_part_of_it(tmp_path: Path) -> None:
    made = context(tmp_path, models_asked=("b_c",), datasets_asked=("d",))
    csv(made)
    assert set(pl.read_csv(made.folder / "scores.csv")["model"]) == {"b_c"}


def test_lists_are_json_in_one_field(tmp_path: Path) -> None:
    made = context(tmp_path)
    pl.DataFrame({"model": ["a"], "names": [["x", 'y "z"']]}).write_parquet(tmp_path / "made" / "other.parquet")
    made.results = {**made.results, "other": tmp_path / "made" / "other.parquet"}
    csv(made)
    assert pl.read_csv(made.folder / "other.csv")["names"].to_list() == ['["x", "y \\"z\\""]']


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    made = context(tmp_path)
    made.results["rankings"].write_text("hello")
    with pytest.raises(RecordError, match=r"rankings\.parquet: not a readable Parquet table"):
        csv(made)


def test_nothing_scored_yet(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has no scores"):
        csv(context(tmp_path, results={}))
