"""Tables of a finished benchmark as lazy frames, each with one schema."""

from collections.abc import Collection, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from qualm.registry import sample
from qualm.runners.runtime.records import RecordError, check_columns
from qualm.runners.runtime.stage import StageError

TABLES: Mapping[str, pa.Schema] = {
    "scores": sample.SCORES,
    "comparisons": sample.COMPARISONS,
    "rankings": sample.RANKINGS,
    "estimator_comparisons": sample.ESTIMATOR_COMPARISONS,
    "calibrator_comparisons": sample.CALIBRATOR_COMPARISONS,
    "recalibrated": sample.RECALIBRATED,
    "correlations": sample.CORRELATIONS,
    "effects": sample.EFFECTS,
    "modality_scores": sample.SCORES,
    "modality_comparisons": sample.MODALITY_COMPARISONS,
    "rank_stability": sample.RANK_STABILITY,
    "attributions": sample.ATTRIBUTIONS,
    "blames": sample.BLAMES,
    "judgements": sample.JUDGEMENTS,
    "uncertainties": sample.UNCERTAINTIES,
    "sets": sample.CONFORMAL_SETS,
    "thresholds": sample.CONFORMAL_THRESHOLDS,
    "abstentions": sample.ABSTENTIONS,
    "abstention_rules": sample.ABSTENTION_RULES,
}
"""Tables of a whole benchmark, each with its schema (`qualm.registry.sample` describes the columns)."""


def scan(path: Path | None, schema: pa.Schema) -> pl.LazyFrame:
    """Return tables as a lazy frame with `schema`, empty without a path; RecordError if wrong."""
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
    return scores.drop("metric").rename({"label": "metric"}).select(sample.LABELLED_SCORES.names)


TEXTS = (
    *("model", "dataset", "setting", "score", "slice", "metric", "variant", "modality", "estimator", "perturbation", "parameter"),
    *("why", "collapsed"),
)
"""Columns of points that hold no numbers."""


def read_points(path: str | Path, columns: Collection[str]) -> pl.DataFrame:
    """Read a plot's CSV: numbers as floats, empty as null; StageError if malformed."""
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
