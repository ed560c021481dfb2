"""Columns in every form that users have them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from qualm.compiler.results.array_columns import ArgumentError, arrow, as_list, common_length, describe_type, floats, frame

NUMBERS = [0.5, None, 2.0]


@pytest.mark.parametrize(
    "column",
    [NUMBERS, (0.5, float("nan"), 2.0), np.array([0.5, np.nan, 2.0]), pl.Series(NUMBERS), pd.Series(NUMBERS), pa.array(NUMBERS)],
    ids=["list", "tuple", "numpy", "polars", "pandas", "arrow"],
)
def test_a_column_in_any_form_is_the_same(column: Any) -> None:
    assert as_list(column) == NUMBERS
    np.testing.assert_array_equal(floats("x", column), [0.5, np.nan, 2.0])


@pytest.mark.parametrize("wrong", ["text", 3, {"a": 1}, None])
def test_what_is_no_column_is_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="expected a column"):
        as_list(wrong)


def test_rows_of_options_are_padded_on_the_right_and_a_missing_row_is_undefined() -> None:
    np.testing.assert_array_equal(floats("p", [[0.5, 0.5], None, [0.2, 0.3, 0.5]]), [[0.5, 0.5, 0], [np.nan] * 3, [0.2, 0.3, 0.5]])


def test_a_text_among_numbers_is_named_with_its_column() -> None:
    with pytest.raises(ArgumentError, match="confidence: expected a number for each row"):
        floats("confidence", [0.5, "high"])
    with pytest.raises(ArgumentError, match="draw_texts: expected a list of texts for each row"):
        arrow("draw_texts", [["a"], [3.5]], pa.list_(pa.string()))


def test_nested_arrays_become_nested_lists() -> None:
    column = arrow("draw_logprobs", [np.array([[0.5, 1.0]]), None], pa.list_(pa.list_(pa.float64())))
    assert column.to_pylist() == [[[0.5, 1.0]], None]


@pytest.mark.parametrize(
    "make",
    [pl.DataFrame, pd.DataFrame, pa.table, dict, lambda data: pl.DataFrame(data).lazy()],
    ids=["polars", "pandas", "arrow", "dict", "lazy"],
)
def test_a_table_in_any_form_is_the_same(make: Any) -> None:
    table = frame(make({"a": [1.0, 2.0], "b": ["x", None]}))
    assert table.to_dict(as_series=False) == {"a": [1.0, 2.0], "b": ["x", None]}


def test_columns_of_different_lengths_are_refused_with_their_lengths() -> None:
    with pytest.raises(ArgumentError, match="a: 2, b: 1"):
        common_length({"a": [1, 2], "b": [1]})
    with pytest.raises(ArgumentError, match="expected a table"):
        frame([1, 2])
    assert common_length({"a": [1, 2], "b": (3, 4)}) == 2 and common_length({}) == 0


def test_types_in_words() -> None:
    assert [describe_type(kind) for kind in (pa.string(), pa.float64(), pa.list_(pa.string()))] == ["a text", "a number", "a list of texts"]
