"""Tables of a finished benchmark as lazy frames, each with one schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from qualm.registry.sample import (
    ABSTENTION_RULES,
    ABSTENTIONS,
    ATTRIBUTIONS,
    BLAMES,
    CALIBRATOR_COMPARISONS,
    COMPARISONS,
    CONFORMAL_SETS,
    CONFORMAL_THRESHOLDS,
    CORRELATIONS,
    EFFECTS,
    ESTIMATOR_COMPARISONS,
    JUDGEMENTS,
    LABELLED_SCORES,
    MODALITY_COMPARISONS,
    RANK_STABILITY,
    RANKINGS,
    RECALIBRATED,
    SCORES,
    UNCERTAINTIES,
)
from qualm.runners.runtime.records import RecordError, check_columns
from qualm.runners.runtime.stage import StageError

TABLES: Mapping[str, pa.Schema] = {
    "scores": SCORES,
    "comparisons": COMPARISONS,
    "rankings": RANKINGS,
    "estimator_comparisons": ESTIMATOR_COMPARISONS,
    "calibrator_comparisons": CALIBRATOR_COMPARISONS,
    "recalibrated": RECALIBRATED,
    "correlations": CORRELATIONS,
    "effects": EFFECTS,
    "modality_scores": SCORES,
    "modality_comparisons": MODALITY_COMPARISONS,
    "rank_stability": RANK_STABILITY,
    "attributions": ATTRIBUTIONS,
    "blames": BLAMES,
    "judgements": JUDGEMENTS,
    "uncertainties": UNCERTAINTIES,
    "sets": CONFORMAL_SETS,
    "thresholds": CONFORMAL_THRESHOLDS,
    "abstentions": ABSTENTIONS,
    "abstention_rules": ABSTENTION_RULES,
}
"""Tables of a whole benchmark, each with its schema (`qualm.registry.sample` describes the columns)."""


def scan(path: Path | None, schema: pa.Schema) -> pl.LazyFrame:
    """Return tables as a lazy frame with `schema`, empty without a path; RecordError if wrong.

    Raises:
        RecordError: the file is missing, damaged, or has other columns or types.
    """
    empty = pl.DataFrame(schema.empty_table())
    if path is None:
        return empty.lazy()
    parts = [(file, pl.scan_parquet(file, glob=False)) for file in check_columns(path, schema)]
    for file, part in parts:
        for name, found in part.collect_schema().items():
            if found != (expected := empty.schema[name]):
                raise RecordError(f"{file}: column {name}: expected {expected}, got {found}; `qualm run SPEC` re-creates it")
    frame = pl.concat([empty.lazy(), *(part for _, part in parts)], how="diagonal")
    return frame.select(schema.names)


def labelled(scores: pl.LazyFrame) -> pl.LazyFrame:
    """Return `scores` with LABELLED_SCORES columns, where `metric` is the whole label."""
    return scores.drop("metric").rename({"label": "metric"}).select(LABELLED_SCORES.names)


TEXTS = (
    *("model", "dataset", "setting", "score", "slice", "metric", "variant", "modality", "estimator", "perturbation", "parameter"),
    *("why", "collapsed"),
)
"""Columns of points that hold no numbers."""


def read_points(path: str | Path, columns: Collection[str]) -> pl.DataFrame:
    """Read a plot's CSV: numbers as floats, empty as null; StageError if it lacks `columns`.

    Raises:
        StageError: the file is not readable, lacks one of the columns, or has text in a column of numbers.
    """
    try:
        frame = pl.read_csv(path, glob=False, infer_schema_length=None, null_values=["", "nan", "NaN"])
    except pl.exceptions.NoDataError:
        frame = pl.DataFrame(schema=list(columns))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StageError(f"{path}: not a readable CSV table: {error}") from error
    if missing := [name for name in columns if name not in frame.columns]:
        raise StageError(f"{path}: expected columns {', '.join(columns)}; missing {', '.join(missing)}")
    texts = [name for name in TEXTS if name in frame.columns]
    numbers = [name for name in columns if name not in texts]
    try:
        return frame.with_columns(pl.col(texts).cast(pl.String), pl.col(numbers).cast(pl.Float64))
    except pl.exceptions.PolarsError as error:
        raise StageError(f"{path}: expected numbers in {', '.join(numbers)}: {str(error).splitlines()[0]}") from error
