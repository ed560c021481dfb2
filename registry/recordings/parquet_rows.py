"""Rows of a stranger's Parquet file, a few in memory at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.recordings.record import RecordingError

BATCH = 32
SPAN = 2**31
"""Bytes that a row group may unpack to; one with more is refused before it is read."""


def columns(path: Path) -> list[str]:
    """Names of the columns; none where the file is no whole Parquet. Reads its footer only."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return []


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (FILE: row N, {column: value}); `columns` may be fields of structs (`doc.query`).

    Raises:
        RecordingError: the file is damaged, or unpacks to too much.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            groups = [file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)]
            if max(groups, default=0) > SPAN:
                raise RecordingError(f"{path}: a row group of {max(groups):,} bytes; more than {SPAN:,} are refused")
            for batch in file.iter_batches(BATCH, columns=list(columns)):
                for row in batch.to_pylist():
                    yield f"{path.name}: row {number}", row
                    number += 1
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise RecordingError(f"{path}: row {number}: truncated or corrupt Parquet ({error}); copy it again") from error
