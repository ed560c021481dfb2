"""A folder of Parquet files as Hugging Face `datasets` saves and hosts them, pictures inside. For data of one's own."""

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._mapped import Columns, need_columns, parts
from qualm.registry.adapters._official import read_image, whole_picture
from qualm.registry.adapters._pictures import Named, PictureColumns, frames_at, frames_within, selected, settled
from qualm.registry.sample import Image, Sample

BATCH = 64
"""Rows, and so pictures, in memory at once."""
SPAN = 2**31
"""Bytes that a row group may unpack to; one with more is refused before it is read."""

META = [{"of": "meta"}]


def hf_parquet(
    context: AdapterContext,
    *,
    files: dict[str, str] = {"test": "**/*.parquet"},  # noqa: B006 - a literal, never changed
    image: str | list[str] | None = "image",
    question: str | None = "question",
    prompt: str | None = None,
    answer: str | None = "answer",
    answer_is: Literal["text", "letter", "index", "index_from_1"] = "text",
    choices: list[str] = [],  # noqa: B006
    id: str | None = None,
    category: str | None = None,
    answerable: str | None = None,
    group: str | None = None,
    meta: list[str] = [],  # noqa: B006
    frames: int | None = None,
    text_only: bool = False,
    unanswerable: str | None = None,
) -> Iterator[Image | Sample]:
    """Rows of the files in order, each a question; `qualm data new` writes the card.

    A picture is a struct of `bytes` and `path` (feature `Image`), or plain bytes; a path without bytes is read from the folder. A
    picture's id is a digest of its bytes, so that rows with equal pictures (of several: with the same first one) are a group. Columns of
    the feature `ClassLabel` give their names, none for -1. Only the columns that are named are read. Otherwise as `image_table`.

    Args:
        files: Split -> path or pattern (`data/train-*.parquet`).
        image: Column with the picture, or a list of pictures; or columns, whose empty cells are passed over; null = questions without
            pictures. A question of several may hold `<image>` for each where it stands.
        question: Column with the question.
        prompt: Asked of every row where there is no column of questions, or put above it.
        answer: Column with the answer, or a list of them; of multiple choice the right option; null = not known.
        answer_is: With options, what stands in that column: an option's text, letter or place.
        choices: One column with a list of options, or a column for each.
        id: Column with a stable name of the row.
        category: Column with its kind.
        answerable: Column with true or false, 1 or 0, yes or no.
        group: Column of what is not independent.
        meta: Columns to keep as text, for `where:` and slices.
        frames: Cells are videos, and so many frames of each, at even distances, are its pictures: animated pictures, or paths of films
            (extra `video`) or of folders of frames.
        text_only: Take rows without a picture as questions without one; otherwise they end the run.
        unanswerable: Column that says the opposite of `answerable`; a card names one of the two.

    Raises:
        AdapterError: a file, column, picture or value is missing or of another kind.
    """
    source = context.need_source("hf_parquet")
    columns = Columns("hf_parquet", question, prompt, answer, answer_is, choices, id, category, answerable, group, meta, unanswerable)
    pictures = PictureColumns.of("hf_parquet", image, frames, text_only)
    names = [*columns.names, *pictures.names]
    at = ", ".join(pictures.names)
    for split, prefix, path in parts(source, files):
        for where, row in rows(path, names, context):
            with context.record():
                cells, listed = pictures.cells(row, where)
                named = [one for cell in cells for one in _pictures_of(source, cell, pictures.frames, f"{where}: {at}")]
                sample = columns.sample(row, pictures.image_id(named, where), split, prefix, where)
                yield from selected(context, settled(sample, len(named), listed, where), named)


def _pictures_of(source: Path, cell: Any, frames: int | None, where: str) -> list[Named]:
    """The pictures of one cell."""
    path = cell.get("path") if isinstance(cell, dict) and not cell.get("bytes") else cell
    if frames and isinstance(path, str) and path:
        return frames_at(source, path, path, frames, where)
    data, name = picture_of(source, cell, where)
    if frames:
        return frames_within(data, name, frames, where)
    image_id = hashlib.sha256(data).hexdigest()[:24]
    return [(image_id, partial(_image, image_id, data, name, where))]


def _image(image_id: str, data: bytes, name: str, where: str) -> Image:
    return Image(image_id, whole_picture(data, where), name)


def rows(path: Path, columns: list[str] | None = None, context: AdapterContext | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a Parquet file, each with its place ("FILE: row 3"), batch by batch.

    Args:
        path: the file.
        columns: to read; None = all.
        context: notes rows with an unknown class, and each row's place; None = such rows end the run.

    Raises:
        AdapterError: the file is damaged, lacks a column, has one twice, or unpacks to more than is read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, context = 0, context or AdapterContext(path.parent)
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow.names
            need_columns(str(path), there, columns or ())
            if twice := sorted({name for name in there if there.count(name) > 1}):
                raise AdapterError(f"{path}: expected each column once, got twice: {', '.join(twice)}; rename or remove one")
            largest = max((file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), default=0)
            if largest > SPAN:
                raise AdapterError(f"{path}: a row group of {largest:,} bytes; write it anew with smaller ones (`row_group_size`)")
            names = _labels(file.schema_arrow)
            for batch in file.iter_batches(BATCH, columns=columns):
                for row in batch.to_pylist():
                    where = f"{path}: row {number}"
                    number += 1
                    context.place[:] = [where]
                    with context.record():
                        yield where, {k: _named(v, names.get(k), f"{where}: {k}") for k, v in row.items()}
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last two: invalid text, a date out of range
        raise AdapterError(f"{path}: row {number}: truncated or corrupt Parquet ({error}); fetch it again") from error


def _labels(schema: Any) -> dict[str, list[str]]:
    """Names of the classes of `ClassLabel` columns, as `datasets` notes them in the file."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: list(f["names"]) for name, f in features.items() if isinstance(f, dict) and f.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _named(value: Any, names: list[str] | None, where: str) -> Any:
    """The name of a class by its number; None for -1, as `datasets` has what is not labelled."""
    if names is None or value is None or value == -1:
        return None if names is not None else value
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise AdapterError(f"{where}: expected a class from 0 to {len(names) - 1}, or -1 for none, got {value!r:.60}")
    return names[value]


def picture_of(source: Path, cell: Any, where: str) -> tuple[bytes, str]:
    """Return the bytes and path of a cell's one image, else raise AdapterError."""
    if isinstance(cell, list):
        if len(cell) != 1:
            raise AdapterError(f"{where}: expected one picture, got {len(cell)}; a question has one here")
        cell = cell[0]
    if isinstance(cell, bytes):
        return cell, ""
    if isinstance(cell, dict) and set(cell) <= {"bytes", "path"}:
        if cell.get("bytes"):
            return cell["bytes"], str(cell.get("path") or "")
        cell = cell.get("path")
    if isinstance(cell, str) and cell:
        return read_image(source, (cell,), cell, where).data, cell
    raise AdapterError(f"{where}: expected a picture as bytes, or a path, got {cell!r:.60}")
