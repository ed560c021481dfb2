"""Tables as lazy frames: one schema each, whatever the file leaves out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import GENERATIONS, RANKINGS, SCORES
from qualm.registry.text import ProjectError
from qualm.runners.results.tables import TABLES, labelled, read_points, scan
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.stage import StageError


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_a_benchmark_lacks_is_empty_with_its_columns(name: str) -> None:
    assert scan(None, TABLES[name]).collect().columns == TABLES[name].names


def test_columns_that_a_file_leaves_out_are_null_and_a_folder_is_one_table(tmp_path: Path) -> None:
    rows = [{"sample_id": "a", "variant": "clean", "draw": 0, "text": "x"}]
    write_table(tmp_path / "g[a]*/1.parquet", rows, GENERATIONS)
    write_table(tmp_path / "g[a]*/2.parquet", [rows[0] | {"sample_id": "b", "no_answer": "cut"}], GENERATIONS)
    assert "no_answer" not in pq.read_schema(tmp_path / "g[a]*/1.parquet").names
    frame = scan(tmp_path / "g[a]*", GENERATIONS).collect()
    assert frame.columns == GENERATIONS.names and frame.select("sample_id", "no_answer").rows() == [("a", None), ("b", "cut")]


def test_another_table_is_refused_and_a_damaged_one_named(tmp_path: Path) -> None:
    path = tmp_path / "rankings.parquet"
    with pytest.raises(ProjectError, match=r"rankings\.parquet: expected a Parquet table, found nothing.*dvc pull"):
        scan(path, RANKINGS)
    write_table(path, [], RANKINGS)
    with pytest.raises(ProjectError, match=r"missing .*; `qualm run SPEC` re-creates it"):
        scan(path, SCORES)
    pl.read_parquet(path).with_columns(pl.col("n").cast(pl.String)).write_parquet(path)
    with pytest.raises(ProjectError, match=r"rankings\.parquet: column n: expected Int64, got String; `qualm run SPEC` re-creates it"):
        scan(path, RANKINGS)
    path.write_text("nothing of the kind")
    with pytest.raises(ProjectError, match=r"rankings\.parquet: not a readable Parquet table"):
        scan(path, RANKINGS)


def test_a_figure_s_table_with_text_among_its_numbers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calibration.csv"
    path.write_text("model,confidence\n7,0.5\nb,\n")
    assert read_points(path, ("model", "confidence")).rows() == [("7", 0.5), ("b", None)]
    path.write_text("model,confidence\na,0.5\nb,half\n")
    with pytest.raises(StageError, match=r"calibration\.csv: expected numbers in confidence: .*half"):
        read_points(path, ("model", "confidence"))


def test_labels_stand_in_for_metrics(tmp_path: Path) -> None:
    scores = pl.DataFrame(SCORES.empty_table()).lazy()
    assert "label" not in labelled(scores).collect_schema().names()
