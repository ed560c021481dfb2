"""Chunks: files of data that the page loads from a web server, from disk or from `qualm view`.

A chunk is a line of JavaScript that calls `qualmChunk` with a name and gzipped content in base64. Over HTTP the page fetches it as text
and runs nothing; from disk, where fetching is forbidden, it loads it as a script. Base64 cannot end the string, so content cannot
become code.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MAX_TEXTS = 65_535
"""Maximum number of different texts in a column of codes."""


def chunk(name: str, content: bytes) -> bytes:
    packed = base64.b64encode(gzip.compress(content, 6, mtime=0))
    return b'qualmChunk(%s,"%s");\n' % (json.dumps(name).encode(), packed)


def content_of(file: bytes) -> bytes:
    """Return the content that `chunk` was given, from the bytes of its file.

    >>> content_of(chunk("a", b"</script>"))
    b'</script>'
    """
    return gzip.decompress(base64.b64decode(file[file.index(b',"') + 2 : file.rindex(b'"')]))


def json_chunk(name: str, value: Any) -> bytes:
    return chunk(name, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


@dataclass(frozen=True)
class PackedColumn:
    """A column of answers for the page: numbers, or codes of texts."""

    name: str
    values: tuple[str | bool, ...] | None
    """Texts of the codes, one more code meaning null; None for numbers, of which NaN means null."""
    data: NDArray[Any]

    @property
    def described(self) -> dict[str, Any]:
        """Return {"name", "type", "values"} of the column: `values` are the codes' texts or None."""
        return {"name": self.name, "type": self.data.dtype.str[1:], "values": None if self.values is None else list(self.values)}


def pack_column(series: pl.Series, order: Sequence[str] | None = None) -> PackedColumn | None:
    """Return a series as a packed column; None if all null or not suited.

    Args:
        order: of the texts; by default that of their first occurrence.
    """
    if series.null_count() == len(series):
        return None
    if series.dtype == pl.Boolean:
        flags = series.replace_strict([True, False], [0, 1], default=2, return_dtype=pl.UInt8).fill_null(2).to_numpy()
        return PackedColumn(series.name, (True, False), flags.astype("<u1"))
    if series.dtype == pl.String:
        texts = list(order) if order is not None else series.drop_nulls().unique(maintain_order=True).to_list()
        if len(texts) > MAX_TEXTS:
            return None
        codes = series.replace_strict(texts, range(len(texts)), default=len(texts), return_dtype=pl.UInt32).fill_null(len(texts))
        return PackedColumn(series.name, tuple(texts), codes.to_numpy().astype("<u1" if len(texts) < 256 else "<u2"))
    if series.dtype.is_numeric():
        return PackedColumn(series.name, None, series.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype("<f4"))
    return None


def finite(value: Any) -> Any:
    """Return a value for JSON: floats to 7 significant digits, NaN and infinities as None.

    Lists, tuples and mappings are changed within; tuples become lists, and keys text.
    """
    if isinstance(value, float):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    return value
