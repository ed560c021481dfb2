"""Tables of stages that the spec names itself, where their kinds have the report show them."""

from pathlib import Path
from typing import Any

import polars as pl

from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.load import Report
from qualm.runners.reporting.section import Section
from qualm.runners.reporting.sections.data_sets import Sheet
from qualm.runners.reporting.text import number, visible
from qualm.runners.runtime.stage import StageError

MAX_ROWS, MAX_COLUMNS = 200, 24


def shown_tables(results: Report) -> list[Sheet]:
    """Return the first MAX_ROWS rows of tables that own stages show; StageError if no table."""
    captions = results.stage.params.get("shown", {})
    files = results.stage.inputs.get("shown", {})
    return [_sheet(caption, Path(files[stage][key])) for stage, of in captions.items() for key, caption in of.items()]


def _sheet(caption: str, path: Path) -> Sheet:
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StageError(f"{path}: expected a table in Parquet: {error}") from None
    part = frame[:MAX_ROWS, :MAX_COLUMNS]
    sizes = {"rows": part.height, "n_rows": frame.height, "columns": part.width, "n_columns": frame.width}
    note = say.ROWS_AND_COLUMNS.format(path=path, **sizes) if part.shape != frame.shape else ""
    rows = [[_cell(value) for value in row] for row in part.iter_rows()]
    return Sheet(visible(caption, 200), [visible(name, 40) for name in part.columns], rows, note=note)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if type(value) is int else "" if value is None else visible(value, 200)


READS = ("shown",)
ASSETS = ["../templates/sheets.html"]
SECTION = Section("shown", say.FURTHER_TABLES, shown_tables, "sheets.html")
