"""The sample-level store: every answer ever computed here, found again by the content that determined it.

Lost without it: everything a killed run had done, and the difference between adding one sample and computing all.
What it must never do is return an answer to another question. So the key is a digest over the whole of what an answer
depends on, nothing is keyed by position or name, and a segment that fails its checksum is as good as absent.

A segment is one batch of answers in one file: a header with the SHA-256 of the rest, then an Arrow stream. It appears
under its name by a rename after an fsync, is never changed afterwards, and its name is unique, so that any number of
processes may write at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runners.models import Part

if TYPE_CHECKING:
    import PIL.Image

MAGIC = b"qualm answers 2\n"
"""Written into every key and every segment: with another format, nothing is found again."""
SEGMENT = pa.schema(
    [
        ("key", pa.binary(32)),
        ("text", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("entropies", pa.list_(pa.float32())),
        ("numbers", pa.list_(pa.float64())),
    ]
)
"""A row is one part of an answer (`runners.models.Part`) behind its key."""
PART = SEGMENT.names[1:]
_HEAD = len(MAGIC) + 64 + 1
_STALE_SECONDS = 24 * 3600


def part_key(model: str, engine: str, prompt: str, pixels: str | None, decoding: Mapping[str, Any], part: str) -> bytes:
    """SHA-256 over everything that a part of an answer depends on.

    Args:
        model: digest of weights, config, processor and dtype.
        engine: digest of the code that answers.
        prompt: as rendered.
        pixels: `pixel_digest` of the picture, None where there is none.
        decoding: method and limits, and what else this part depends on.
        part: of `runners.models.PARTS`, or `draw K`.
    """
    material = json.dumps([model, engine, prompt, pixels, dict(decoding), part], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(MAGIC + material.encode()).digest()


def pixel_digest(image: PIL.Image.Image) -> str:
    """SHA-256 of a picture's mode, size and pixels: of what the model is given, not of the file it came from."""
    total = hashlib.sha256(f"{image.mode} {image.width} {image.height}\n".encode())
    total.update(image.tobytes())
    return total.hexdigest()


class Store:
    """The answers of one model by one engine. Opening reads and checks all its segments.

    Row numbers that `find` gives stay valid while the store is open.
    """

    def __init__(self, root: Path, model: str, engine: str) -> None:
        self.folder = root / hashlib.sha256(f"{model} {engine}".encode()).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rows: dict[bytes, int] = {}
        self._count = 0
        self._tables: list[pa.Table] = []
        self.damaged = 0
        """Segments that were found truncated or corrupt, and set aside."""
        self._read_all()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, key: bytes) -> int | None:
        """The row of a part, None where it is not here."""
        return self._rows.get(key)

    def take(self, rows: Sequence[int]) -> pa.Table:
        """The parts at these rows, in this order, with the columns of `PART`."""
        if not self._tables:
            return SEGMENT.empty_table().select(PART)
        self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        return self._tables[0].select(PART).take(pa.array(rows, pa.int64()))

    def put(self, keys: Sequence[bytes], parts: Sequence[Part]) -> None:
        """Write one segment; when this returns, the answers survive a kill and a power cut."""
        rows = [{"key": key, **asdict(part)} for key, part in zip(keys, parts, strict=True)]
        table = pa.Table.from_pylist(rows, schema=SEGMENT)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SEGMENT) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
        partial = self.folder / f".{name}.partial"
        with partial.open("wb") as handle:
            handle.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(self.folder / f"{name}.segment")
        _sync_folder(self.folder)
        self._add(table)

    def _read_all(self) -> None:
        seen: set[str] = set()
        for path in sorted(self.folder.glob("*.segment")):
            seen.add(path.name)
            table = self._read(path)
            if table is not None:
                self._add(table)
        now = time.time()
        for path in self.folder.glob(".*.partial"):  # of runs that were killed while writing
            try:
                if now - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()
            except FileNotFoundError:  # another process tidied it first
                continue

    def _read(self, path: Path) -> pa.Table | None:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:  # another process set it aside as damaged
            return None
        fault = _fault(raw)
        if fault:
            self.damaged += 1
            print(f"store: {path}: {fault}; it is set aside and its answers are computed again", file=sys.stderr, flush=True)
            path.replace(path.with_suffix(".damaged"))
            return None
        with pa.ipc.open_stream(pa.py_buffer(raw)[_HEAD:]) as reader:
            return reader.read_all()

    def _add(self, table: pa.Table) -> None:
        self._tables.append(table)
        for row, key in enumerate(table.column("key").to_pylist(), self._count):
            self._rows.setdefault(key, row)
        self._count += table.num_rows


def _fault(raw: bytes) -> str:
    """What is wrong with a segment's bytes; empty if nothing is."""
    if len(raw) < _HEAD or not raw.startswith(MAGIC):
        return f"does not begin as a segment does ({len(raw)} bytes)"
    if hashlib.sha256(memoryview(raw)[_HEAD:]).hexdigest().encode() != raw[len(MAGIC) : _HEAD - 1]:
        return f"fails its checksum ({len(raw)} bytes)"
    return ""


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
