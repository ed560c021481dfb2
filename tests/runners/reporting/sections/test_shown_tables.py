"""Tables of kinds of stages of one's own, as the report shows them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from qualm.runners.reporting.sections.shown_tables import MAX_COLUMNS, MAX_ROWS, shown_tables
from qualm.runners.runtime.stage import StageError
from tests.runners.reporting.conftest import Fabric
from tests.runners.reporting.test_report import made


def results(captions: dict[str, Any], files: dict[str, Any]) -> Any:
    return SimpleNamespace(stage=SimpleNamespace(params={"shown": captions}, inputs={"shown": files}))


def test_a_table_as_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "best.parquet")
    pl.DataFrame({"model": ["a", None], "best": [0.25, None], "n": [1200, 3]}).write_parquet(path)
    (sheet,) = shown_tables(results({"one": {"best": "The best"}}, {"one": {"best": path}}))
    assert (sheet.caption, sheet.header, sheet.note) == ("The best", ["model", "best", "n"], "")
    assert sheet.rows == [["a", "0.250", "1,200"], ["", "", "3"]]


def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "long.parquet")
    pl.DataFrame({f"c{i}": range(MAX_ROWS + 1) for i in range(MAX_COLUMNS + 1)}).write_parquet(path)
    (sheet,) = shown_tables(results({"one": {"best": "Long"}}, {"one": {"best": path}}))
    assert len(sheet.rows) == MAX_ROWS and len(sheet.header) == len(sheet.rows[0]) == MAX_COLUMNS
    assert sheet.note == f"200 of 201 rows and 24 of 25 columns; all are in {path}."


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(StageError, match=r"x\.parquet: expected a table in Parquet"):
        shown_tables(results({"one": {"best": "X"}}, {"one": {"best": str(tmp_path / "x.parquet")}}))


def test_where_there_are_none() -> None:
    assert shown_tables(SimpleNamespace(stage=SimpleNamespace(params={}, inputs={}))) == []  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_stands_in_the_report_and_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fabric = Fabric(tmp_path, n=12)
    stage = fabric.stage()
    assert "Further tables" not in made(stage)[0]
    pl.DataFrame({"model": ["<b>a</b>"], "best": [0.25]}).write_parquet(tmp_path / "best.parquet")
    stage.params["shown"] = {"summarise": {"best": "The best"}}
    stage.inputs["shown"] = {"summarise": {"best": "best.parquet"}}
    text, page = made(stage)
    assert "Further tables" in page.text and "The best" in page.text and "<b>a</b>" not in text
