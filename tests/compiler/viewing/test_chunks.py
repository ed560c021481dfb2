"""Chunks: what goes in comes out, and nothing in it is code."""

import json
import math
import re

import numpy as np
import polars as pl
import pytest

from qualm.compiler.viewing.chunks import MAX_TEXTS, chunk, content_of, finite, json_chunk, pack_column


@pytest.mark.parametrize("content", [b"", b'");alert(1);("', "</script>\u2028\x00".encode(), bytes(range(256)) * 100])
def test_content_comes_back_and_cannot_end_the_string(content: bytes) -> None:
    file = chunk("small/t/0", content)
    assert content_of(file) == content
    assert re.fullmatch(rb'qualmChunk\("small/t/0","[A-Za-z0-9+/=]*"\);\n', file)
    assert chunk("small/t/0", content) == file


def test_json_has_no_number_that_is_none() -> None:
    assert json.loads(content_of(json_chunk("a", {"x": [1, None]}))) == {"x": [1, None]}
    with pytest.raises(ValueError, match="JSON"):
        json_chunk("a", {"x": math.nan})
    assert finite({"x": [math.nan, math.inf, 0.12345678901], 3: "t"}) == {"x": [None, None, 0.1234568], "3": "t"}


def test_texts_are_places_in_a_list() -> None:
    made = pack_column(pl.Series("model", ["b", "a", None, "b"]))
    assert made is not None and made.values == ("b", "a") and made.data.tolist() == [0, 1, 2, 0] and made.data.dtype == np.uint8
    ordered = pack_column(pl.Series("model", ["b", "a", None, "b"]), ["a", "b"])
    assert ordered is not None and ordered.data.tolist() == [1, 0, 2, 1]
    many = pack_column(pl.Series("id", [str(i) for i in range(300)]))
    assert many is not None and many.described["type"] == "u2"
    for n, kind in ((255, "u1"), (256, "u2"), (MAX_TEXTS, "u2")):  # the code behind the last stands for nothing
        most = pack_column(pl.Series("id", [*map(str, range(n)), None]))
        assert most is not None and most.described["type"] == kind and most.data[-1] == n
    assert pack_column(pl.Series("id", [str(i) for i in range(MAX_TEXTS + 1)])) is None


def test_yes_and_no_and_numbers() -> None:
    flags = pack_column(pl.Series("answerable", [True, None, False]))
    assert flags is not None and flags.values == (True, False) and flags.data.tolist() == [0, 2, 1]
    numbers = pack_column(pl.Series("correct", [1.0, None, 0.25]))
    assert numbers is not None and numbers.values is None and numbers.data.dtype.str == "<f4"
    np.testing.assert_array_equal(numbers.data, np.array([1, np.nan, 0.25], dtype="<f4"))
    assert pack_column(pl.Series("nothing", [None, None], dtype=pl.Float64)) is None
    assert pack_column(pl.Series("lists", [[1], [2]])) is None
