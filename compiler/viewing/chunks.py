"""Chunks: the files of data that the page loads. A web server, a disk and `qualm view` hand them out alike.

A chunk is a line of JavaScript that calls `qualmChunk` with a name and the content, gzipped, in base64. Over HTTP the page fetches it as
text and runs nothing; a page that was opened from disk may not fetch, and loads it as a script. Base64 has no character that could
end the string, so no content can become code.
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

LONGEST_LIST = 65_535
"""Different texts that a column of codes may have."""


def chunk(name: str, content: bytes) -> bytes:
    packed = base64.b64encode(gzip.compress(content, 6, mtime=0))
    return b'qualmChunk(%s,"%s");\n' % (json.dumps(name).encode(), packed)


def content_of(file: bytes) -> bytes:
    """The content of a chunk's file.

    >>> content_of(chunk("a", b"</script>"))
    b'</script>'
    """
    return gzip.decompress(base64.b64decode(file[file.index(b',"') + 2 : file.rindex(b'"')]))


def json_chunk(name: str, value: Any) -> bytes:
    """A chunk of JSON. What is not a finite number is null."""
    return chunk(name, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


@dataclass(frozen=True)
class PackedColumn:
    """One value for each answer: a number, or the place of a text in a list."""

    name: str
    values: tuple[str | bool, ...] | None
    """What codes stand for, the code behind the last standing for nothing; None of numbers, of which NaN stands for nothing."""
    data: NDArray[Any]

    @property
    def described(self) -> dict[str, Any]:
        """What the index says of it."""
        return {"name": self.name, "type": self.data.dtype.str[1:], "values": None if self.values is None else list(self.values)}


def column(series: pl.Series, values: Sequence[str] | None = None) -> PackedColumn | None:
    """A series as a column; None where it has no value, or is neither numbers nor a short list of texts.

    Args:
        values: of texts, their order; otherwise that in which they first occur.
    """
    if series.null_count() == len(series):
        return None
    if series.dtype == pl.Boolean:
        flags = series.replace_strict([True, False], [0, 1], default=2, return_dtype=pl.UInt8).fill_null(2).to_numpy()
        return PackedColumn(series.name, (True, False), flags.astype("<u1"))
    if series.dtype == pl.String:
        texts = list(values) if values is not None else series.drop_nulls().unique(maintain_order=True).to_list()
        if len(texts) > LONGEST_LIST:
            return None
        codes = series.replace_strict(texts, range(len(texts)), default=len(texts), return_dtype=pl.UInt32).fill_null(len(texts))
        return PackedColumn(series.name, tuple(texts), codes.to_numpy().astype("<u1" if len(texts) < 256 else "<u2"))
    if series.dtype.is_numeric():
        return PackedColumn(series.name, None, series.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype("<f4"))
    return None


def finite(value: Any) -> Any:
    """A value as JSON has it: floats to seven digits, null for those that are not finite; in lists and mappings too."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    return value
