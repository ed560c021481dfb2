"""CSV: the tables for a paper, and every table that scoring wrote, for a spreadsheet or R."""

import json
from dataclasses import astuple

import polars as pl

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._results import Marks, caption, result_tables
from qualm.runners.runtime.records import read_schema

OF = "results"
COLUMNS = ("table", "caption", "row", "column", "value", "low", "high", "mark")
MARKS = Marks("best", "perhaps", "low, high")


def csv(context: ExportContext, *, variant: str = "clean", slice: str = "all") -> None:
    """Write `tables.csv` with the tables of `--to latex`, and a CSV file per table of scoring.

    `tables.csv` has a line for each value, with table, caption, row and column as in the report, and its mark: `best` or `perhaps`.
    In `scores.csv` the metric's label stands beside its parts: `metric`, `parameters`, `estimator`, `conformal`, `nonconformity`,
    `calibrator`, `judge`, `higher_is_better`. What is undefined is empty.

    Args:
        variant: Of the inputs in `tables.csv`: `clean`, or a perturbed one.
        slice: Of the questions in `tables.csv`: `all`, FIELD=VALUE, or `macro:FIELD` for a macro average.
    """
    if "scores" not in context.results:
        raise context.without_scores()
    for name, path in context.results.items():
        read_schema(path)  # refuses a damaged file
        table = pl.read_parquet(path)
        for column, what in (("model", context.models_asked), ("dataset", context.datasets_asked)):
            if what and column in table.columns:
                table = table.filter(pl.col(column).is_in(list(what)))
        nested = [column for column, kind in table.schema.items() if kind.is_nested()]
        table = table.with_columns(pl.col(column).map_elements(_json, return_dtype=pl.String) for column in nested)
        table.write_csv(context.folder / f"{name}.csv")
    paper = [
        (table.name, caption(table, context.scoring, marks=MARKS), table.heading(row), table.heading(column), *astuple(value)[:4])
        for table in result_tables(context, variant, slice)
        for row, values in table.rows.items()
        for column, value in values.items()
    ]
    pl.DataFrame(paper, COLUMNS, orient="row", infer_schema_length=None).write_csv(context.folder / "tables.csv")
    context.counts["tables"] = len(context.results) + 1


def _json(value: object) -> str:
    return json.dumps(value.to_list() if isinstance(value, pl.Series) else value, ensure_ascii=False)
