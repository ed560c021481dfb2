"""Tables of hidden states and attention, written and read one row group at a time.

A row is a sample under a variant and a draw (0: the greedy answer); a column is a signal of `qualm.registry.plugins.internals`, float16
(float64 if the signal is `exact`), null if not requested or undefined. Rows of a variant are contiguous, and all draws of an answer are in
one row group of about GROUP_BYTES, which bounds the memory.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from qualm.registry.plugins.internals import parse_internal
from qualm.registry.system import atomic
from qualm.runners.runtime.records import RecordError

GROUP_BYTES = 16 * 2**20
_KEY = (("sample_id", pa.string()), ("variant", pa.string()), ("draw", pa.int16()))


def schema(signals: Sequence[str]) -> pa.Schema:
    """Return the schema of a table of sample_id, variant, draw and these signals."""
    return pa.schema([*_KEY, *((signal, pa.list_(pa.float64() if parse_internal(signal).exact else pa.float16())) for signal in signals)])


def write_internals(path: Path, tables: Iterable[pa.Table], signals: Sequence[str], provenance: Mapping[str, Any]) -> int:
    """Write each table as one row group of a file, atomically; return the number of rows."""
    kind = schema(signals).with_metadata({b"qualm": json.dumps(provenance, sort_keys=True).encode()})
    rows = 0
    with atomic.file(path) as partial, pq.ParquetWriter(partial, kind, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table.cast(kind), row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return rows


def read_internals(path: Path, variant: str, signals: Sequence[str]) -> Iterator[pa.Table]:
    """Yield a variant's rows (keys, signals) by row group; RecordError without file or column."""
    if not path.is_file():
        raise RecordError(f"{path}: expected a Parquet table, found nothing; run `qualm plan` to see which stage makes it")
    names = [name for name, _ in _KEY]
    with pq.ParquetFile(path) as file:
        if lacking := [name for name in (*names, *signals) if name not in file.schema_arrow.names]:
            raise RecordError(f"{path}: expected the columns {', '.join((*names, *signals))}; missing {', '.join(lacking)}")
        place = file.schema_arrow.names.index("variant")
        for number in range(file.num_row_groups):
            extent = file.metadata.row_group(number).column(place).statistics
            if extent is None or extent.min <= variant <= extent.max:
                table = file.read_row_group(number, [*names, *signals])
                if (mine := table.filter(pc.equal(table["variant"], variant))).num_rows:
                    yield mine
