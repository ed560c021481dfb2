"""Whatever stands in a record, reading it gives samples that a table can hold or an AdapterError; never a traceback."""

from __future__ import annotations

import csv
import io
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.plugins.registry import load
from qualm.registry.sample import IMAGES, SAMPLES, Image, Sample
from qualm.runners.data.rows import as_row
from tests.support.data.hostile import changed, places
from tests.support.data.official_layouts import LAYOUTS

HUGE = "a number of 5,000 digits, which Python does not write"
NASTY: list[Any] = [
    *(None, True, -1, 0, 1.5, float("nan"), float("inf"), HUGE, [], {}, [[]], [None], {"a": 1}, [{}], "", " ", "9" * 5000),
    *("\ud800", "a\0b", "../../x", "/etc/passwd", "x" * 5000, "x" * 200_000, "[" * 5000, "²", "\n", "yes\tno", "{0.__class__}", "NaN"),
]
TRIES = 30
"""Of each adapter."""


def documents(source: Path) -> list[Path]:
    return sorted(p for p in source.rglob("*") if p.suffix in (".json", ".jsonl", ".jsonlines", ".tsv", ".csv", ".txt"))


def read(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".tsv":
        return [list(row) for row in csv.reader(io.StringIO(text, newline=""), "excel-tab")]
    if path.suffix in (".csv", ".txt"):
        return text.splitlines()
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def write(path: Path, value: Any, was: str) -> None:
    if path.suffix in (".tsv", ".csv", ".txt"):
        rows = [r if isinstance(r, list) else [r] for r in value] if isinstance(value, list) else [[value]]
        text = "\n".join("\t".join(str(cell) for cell in row) for row in rows)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))  # then no UTF-8 either
    elif isinstance(value, list) and not was.startswith("["):
        path.write_text("\n".join(map(dumped, value)))
    else:
        path.write_text(dumped(value))


def dumped(value: Any) -> str:
    return json.dumps(value).replace(f'"{HUGE}"', "9" * 5000)


def mutants(source: Path) -> Iterator[tuple[Path, Any, str, Any]]:
    """A file, what it holds with one thing changed, its text before, and what was changed."""
    rng = random.Random(zlib.crc32(str(sorted(p.name for p in source.iterdir())).encode()))
    every = [(path, at, to) for path in documents(source) for at in places(read(path), most=3) for to in NASTY]
    for path, at, to in rng.sample(every, min(TRIES, len(every))):
        yield path, changed(read(path), at, to), path.read_text(), (path.name, at, to)


def fits_a_table(items: list[Image | Sample]) -> None:
    samples = [as_row(item) for item in items if isinstance(item, Sample)]
    images = [{"image_id": i.image_id, "image": {"bytes": i.data, "path": i.path}} for i in items if isinstance(i, Image)]
    assert pa.Table.from_pylist(samples, schema=SAMPLES).num_rows == len(samples)
    assert pa.Table.from_pylist(images, schema=IMAGES).num_rows == len(images)


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_value_anywhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    source, args = LAYOUTS[name](tmp_path / "in")
    adapter = load("datasets", name)
    assert [i for i in adapter(AdapterContext(tmp_path, source=source), **args) if isinstance(i, Sample)]
    contexts = AdapterContext(tmp_path, source=source), AdapterContext(tmp_path, source=source, bad=lambda error: None)
    for path, value, was, what in mutants(source):
        write(path, value, was)
        for context in contexts:
            try:
                fits_a_table(list(adapter(context, **args)))
            except AdapterError:
                pass
            except Exception as error:
                raise AssertionError(f"{what!r:.200}: {type(error).__name__}: {error!s:.200}") from error
        path.write_text(was)
