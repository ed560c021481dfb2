"""CSV: every table that scoring wrote, for a spreadsheet or R."""

import json

import polars as pl

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.runtime.records import read_schema

OF = "results"


def csv(context: ExportContext) -> None:
    """Write a CSV file for each table that scoring wrote: scores, rankings, comparisons...

    In `scores.csv` the metric's label stands beside its parts: `metric`, `parameters`, `estimator`, `conformal`, `nonconformity`,
    `calibrator`, `judge`, `higher_is_better`. What is undefined is empty.
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
    context.counts["tables"] = len(context.results)


def _json(value: object) -> str:
    return json.dumps(value.to_list() if isinstance(value, pl.Series) else value, ensure_ascii=False)
