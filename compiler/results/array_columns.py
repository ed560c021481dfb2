"""Columns from lists, NumPy, pandas, Polars and Arrow, converted for plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.plugins.column_names import RATED_BY

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
SHARES = (
    "correct", "confidence", "answerable", "uncertain", "is_calibration", "covered", "says_uncertain", "pred_is_idk", "gt_is_idk", "hedges",
    "option_probabilities", "labelled", "people_rating", "sampled_correct",
)  # fmt: skip
"""Columns whose numbers lie between 0 and 1, as do ratings of judges."""
INDICES = ("predicted", "right_option")
"""Columns that hold the index of an option, counted from 0."""


class ArgumentError(ValueError):
    """Error of an invalid argument of a library function: where, expected, found."""


def check_values(name: str, values: Floats) -> None:
    """Raise ArgumentError for shares or ratings outside 0..1, negative or fractional indices.

    Other columns are not checked, and NaN is allowed. An index must be a whole number of at least 0; it has no upper limit here.
    """
    if name in SHARES or name.startswith(RATED_BY):
        expected, wrong = "a number between 0 and 1", (values < 0) | (values > 1)
    elif name in INDICES:
        expected, wrong = "the index of an option, counted from 0", (values < 0) | (values % 1 > 0)
    else:
        return
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        raise ArgumentError(f"{name}: row {place[0]}: expected {expected}, got {values[place]:g}")


def as_list(values: Any) -> list[Any]:
    """Return any column type as a list, NaN as None; ArgumentError if it is no column."""
    for method in ("to_pylist", "to_list", "tolist"):  # Arrow; Polars, pandas; NumPy, torch
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise ArgumentError(f"expected a column, one value a row, got {type(values).__name__}")
    return [None if _is_nan(value) else value for value in values]


def arrow(name: str, values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values as an Arrow column of type `kind`, NaN as null; else ArgumentError."""
    rows = [value.tolist() if hasattr(value, "tolist") else value for value in as_list(values)]
    try:
        return pa.chunked_array([pa.array(rows, kind)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{name}: expected {describe_type(kind)} for each row: {str(error).strip().splitlines()[0]}") from None


def floats(name: str, values: Any) -> Floats:
    """Return a column as floats (n,), None as NaN; of lists as (n, K), padded with 0.

    Raises:
        ArgumentError: a value is no number.
    """
    rows = as_list(values)
    try:
        if any(hasattr(row, "__len__") and not isinstance(row, str) for row in rows):
            width = max(len(row) for row in rows if row is not None)
            padded = np.zeros((len(rows), width))
            for place, row in enumerate(rows):
                padded[place, : width if row is None else len(row)] = np.nan if row is None else np.asarray(row, dtype=np.float64)
            return padded
        return np.array([np.nan if row is None else row for row in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name}: expected a number for each row: {error}") from None


def option_floats(name: str, values: Any) -> Floats:
    """Return numbers of a question's options as (n, K), NaN beyond its last option.

    Raises:
        ArgumentError: a row is no list of numbers.
    """
    if len(getattr(values, "shape", ())) == 2:
        values = np.asarray(values)  # a data frame iterates by column
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    rows = as_list(values)
    numbers = floats(name, rows)
    if numbers.ndim != 2:
        raise ArgumentError(f"{name}: expected a row of numbers for each question")
    for place, row in enumerate(rows):
        numbers[place, 0 if row is None else len(row) :] = np.nan
    return numbers


def common_length(columns: Mapping[str, Any]) -> int:
    """Return the columns' number of rows, 0 without any; ArgumentError if they differ."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ArgumentError(f"expected as many rows in every column, got {', '.join(f'{name}: {n:,}' for name, n in lengths.items())}")
    return next(iter(lengths.values()), 0)


def frame(table: Any) -> pl.DataFrame:
    """Return any table type (Polars, pandas, Arrow, dict of columns) as a Polars data frame.

    Raises:
        ArgumentError: it is none of these.
    """
    import polars as pl

    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if isinstance(table, pa.Table):
        converted = pl.from_arrow(table)
        assert isinstance(converted, pl.DataFrame)
        return converted
    if isinstance(table, Mapping):
        common_length({name: as_list(values) for name, values in table.items()})
        return pl.DataFrame({name: as_list(values) for name, values in table.items()}, strict=False)
    if hasattr(table, "columns") and hasattr(table, "to_dict"):  # pandas, without which Polars could not convert it either
        return pl.DataFrame({str(name): as_list(table[name]) for name in table.columns}, strict=False)
    raise ArgumentError(f"expected a table (Polars, pandas, Arrow, or a mapping of columns), got {type(table).__name__}")


def describe_type(kind: pa.DataType) -> str:
    """Return an Arrow type in words: "a number", "a list of texts".

    >>> describe_type(pa.list_(pa.list_(pa.float64())))
    'a list of lists of numbers'
    """
    words = {True: "numbers", False: "texts"}
    if not pa.types.is_list(kind):
        return "a text" if pa.types.is_string(kind) else "a number"
    inner, depth = kind.value_type, 1
    while pa.types.is_list(inner):
        inner, depth = inner.value_type, depth + 1
    return "a list of " + "lists of " * (depth - 1) + words[not pa.types.is_string(inner)]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value
