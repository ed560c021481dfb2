"""Append-only folders of checksummed Arrow files, shared by processes and machines without locks.

A segment is a header with the SHA-256 of the rest, then an Arrow stream. It appears under its name by a rename after an
fsync, its name is unique, and it is never changed afterwards; so nobody needs a lock, not even over NFS, and a process
sees what others wrote by listing the folder again. A file that fails its checksum is as good as absent.

States of a file, by its name: hidden (`qualm.registry.system.atomic`: being written), `NAME.segment`, `NAME.damaged` (set aside),
`NAME.retired` (all it held is in a merged segment; kept for a moment for those who have listed it and not yet read it).
"""

from __future__ import annotations

import hashlib
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from qualm.registry.system import atomic

MAGIC = b"qualm segment 2\n"
HEAD = 128
"""Bytes before the Arrow stream: magic, checksum, spaces. A multiple of 64, so that a mapped file's columns are aligned."""
STALE_SECONDS = 24 * 3600
"""Age at which a partial file can have no writer any more."""


class Segments:
    """Checksummed Arrow files (segments) of one folder, sorted by time of writing."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        touch: bool = True,
        valid_rows: Callable[[pa.Table], pa.Table] = lambda table: table,
        optional: tuple[str, ...] = (),
    ) -> None:
        """Open without reading.

        Args:
            folder: created by the first write.
            schema: of every segment.
            touch: report damaged segments and set them aside; else only count them.
            valid_rows: returns the valid rows of a table; no others are read.
            optional: last columns of the schema, which segments lack if all values are null.
        """
        self._optional = optional
        self.folder, self.schema, self._touch, self._sound = folder, schema, touch, valid_rows
        self._unsound: set[str] = set()
        self.damaged = 0
        """Number of damaged segments."""
        self.durable = True
        """True if written segments survive a power cut, not only a kill."""

    def names(self) -> list[str]:
        """Return the file names of the segments that exist now, sorted."""
        try:
            return sorted(p.name for p in self.folder.iterdir() if p.suffix == ".segment")
        except FileNotFoundError:
            return []

    def read(self, name: str) -> pa.Table | None:
        """Map a segment's valid rows into memory; None if missing, or damaged and set aside.

        A damaged segment is reported and renamed; its answers are computed again.
        """
        path = self.folder / name
        raw = _map_file(path)
        if raw is None:
            # Listed by us before another process merged it: its rows are still good, and the merged segment is not in our list yet.
            raw = _map_file(path.with_suffix(".retired"))
        if raw is None:  # merged into another, or set aside by another process
            return None
        fault = _fault(raw)
        if not fault:
            try:
                with pa.ipc.open_stream(raw.slice(HEAD)) as reader:
                    table = reader.read_all()
                # A right checksum proves only what was written, not by whom: offsets beyond a buffer would crash the process later.
                table.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                fault = f"is no table ({error})"
            else:
                table = self.complete(table)
                if table.schema.equals(self.schema):
                    return self._drop_invalid(name, table)
                fault = f"holds other columns than {', '.join(self.schema.names)}"
        self._set_aside(path, fault)
        return None

    def complete(self, table: pa.Table) -> pa.Table:
        """Return a table with its missing optional columns added as nulls."""
        for name in self._optional:
            if name not in table.column_names:
                table = table.append_column(self.schema.field(name), pa.nulls(table.num_rows, self.schema.field(name).type))
        return table.select(self.schema.names) if set(table.column_names) == set(self.schema.names) else table

    def _drop_invalid(self, name: str, table: pa.Table) -> pa.Table:
        """Return a segment's valid rows; if `touch`, print once how many others there are."""
        rows = self._sound(table)
        if rows.num_rows < table.num_rows and name not in self._unsound and self._touch:
            self._unsound.add(name)
            message = f"{table.num_rows - rows.num_rows} answers hold impossible numbers; they count as never computed"
            print(f"store: {self.folder / name}: {message}", file=sys.stderr, flush=True)
        return rows

    def write(self, table: pa.Table, at: str | None = None) -> str:
        """Write rows as a crash-safe segment named by the time (`at`, else now); return its name.

        Args:
            table: of this folder's schema.
            at: time in the name (`write_time`), for a replacement of older segments; now by default.

        Returns:
            Its name.
        """
        # Zero-padded, so that names sort as times do; the random part keeps writers of one nanosecond apart.
        name = f"{at or f'{time.time_ns():020d}'}-{uuid.uuid4().hex}"
        body = pa.BufferOutputStream()
        table = table.drop_columns([name for name in self._optional if table[name].null_count == table.num_rows])
        with pa.ipc.new_stream(body, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        data = memoryview(body.getvalue())
        # In memory first: the checksum stands at the head, and a stream that is cut short must never look whole.
        with atomic.file(self.folder / f"{name}.segment", durable=self.durable) as partial, partial.open("wb") as handle:
            handle.write(_header(data))
            handle.write(data)
        return f"{name}.segment"

    def retire(self, name: str) -> None:
        """Rename a segment whose rows are all in others, so that none opens it any more."""
        try:
            # Not unlinked: who has listed it and not read it yet finds it under this name for a moment longer.
            (self.folder / name).replace(self.folder / f"{name.removesuffix('.segment')}.retired")
        except FileNotFoundError:  # another process did
            return

    def _set_aside(self, path: Path, fault: str) -> None:
        self.damaged += 1
        if not self._touch:
            return
        print(f"store: {path}: {fault}; it is set aside; a run that needs its answers computes them again", file=sys.stderr, flush=True)
        try:
            path.replace(path.with_suffix(".damaged"))
        except FileNotFoundError:  # another process did
            return


def parse_segment(data: bytes) -> pa.Table:
    """Parse a segment's bytes to a table; raise ValueError if they were changed."""
    raw = pa.py_buffer(data)
    if fault := _fault(raw):
        raise ValueError(f"a segment {fault}")
    with pa.ipc.open_stream(raw.slice(HEAD)) as reader:
        return reader.read_all()


def write_time(name: str) -> str:
    """Return the time of writing from a segment's name: nanoseconds, zero-padded."""
    return name.partition("-")[0]


def leftovers(folder: Path, retired_seconds: float) -> Iterator[Path]:
    """Yield a folder's deletable files: damaged, abandoned, or retired `retired_seconds` ago."""
    now = time.time()
    for path in sorted(folder.iterdir()):
        age = {".damaged": 0.0, ".retired": retired_seconds, atomic.PARTIAL: float(STALE_SECONDS)}.get(path.suffix)
        try:
            # A rename keeps the time of writing and sets the time of change: from when on it has been retired.
            if age is not None and now - path.stat().st_ctime >= age:
                yield path
        except FileNotFoundError:  # another process removed it
            continue


def _map_file(path: Path) -> pa.Buffer | None:
    try:
        return pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    except FileNotFoundError:
        return None


def _header(body: memoryview) -> bytes:
    return (MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n").ljust(HEAD)


def _fault(raw: pa.Buffer) -> str:
    """Return what is wrong with a segment's bytes; "" if they are valid."""
    view = memoryview(raw)
    if len(view) < HEAD or bytes(view[: len(MAGIC)]) != MAGIC:
        return f"does not begin as a segment does ({len(view)} bytes)"
    return "" if bytes(view[:HEAD]) == _header(view[HEAD:]) else f"fails its checksum ({len(view)} bytes)"
