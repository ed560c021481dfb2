"""A table of questions with images in it or beside it: CSV, TSV, JSON, JSON Lines, Parquet or Arrow. For data of one's own."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._fields import need_columns
from qualm.registry.adapters._mapped import Columns, files_by_split, image_path, picture_prefix
from qualm.registry.adapters._official import read_records, read_rows
from qualm.registry.adapters._parquet import rows as parquet_rows
from qualm.registry.adapters._pictures import (
    Named,
    PictureColumns,
    cell_content,
    check_marks,
    frames_at,
    frames_within,
    image_at,
    image_within,
    select_sample,
)
from qualm.registry.formats.columnar import SUFFIXES as COLUMNAR
from qualm.registry.sample import Image, Sample

MAX_PATH = 1000
"""Characters of a path; a longer text that holds no image is no path either."""
META = [{"of": "meta"}]


def image_table(
    context: AdapterContext,
    *,
    files: dict[str, str] = {"test": "test.csv"},  # noqa: B006 - a literal, never changed
    images: str = ".",
    image: str | list[str] | None = "image",
    question: str | None = "question",
    instruction: str | None = None,
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
    separator: str | None = None,
    shuffle: bool = False,
) -> Iterator[Image | Sample]:
    """Yield a question per row of CSV, TSV, JSON, Parquet or Arrow files, after its images.

    `qualm data new` writes the card. A dotted name reads a field within a column: `answers.text` of a record or a list of records, in
    JSON, Parquet, or JSON text in a cell. `ClassLabel` columns of `datasets` give their names, None for -1.

    Without an id column, `sample_id` is a digest of image, question and options. An image's id is its path, or a digest of its bytes.
    Questions with the same (first) image are a group, unless `group` names a column. With several splits, the split's name precedes
    sample ids, and image paths if `images` has `{split}`. A cell of another kind than its column's ends the run with file and line.

    Args:
        files: Split -> path or pattern. `.csv`, `.tsv`, `.parquet`, `.arrow` (`datasets.save_to_disk`); anything else is JSON: a list of
            objects, or one on each line.
        images: The folder that the images' paths begin in; `{split}` in it stands for the split.
        image: Column with the image, or a list of them (in CSV as JSON); or columns, whose empty cells are passed over; null = questions
            without images. An image is a path, bytes, a record of `bytes` and `path`, or base64. A question of several may hold
            `<image>` for each where it stands.
        question: Column with the question.
        instruction: Asked of every row where there is no column of questions, or put above it.
        answer: Column with the answer, or a list of them (in CSV as JSON or Python text); of multiple choice the right option; null = not
            known.
        answer_is: With options, what stands in that column: an option's text, letter or place.
        choices: One column with a list of options, or a column for each.
        id: Column with a stable name of the row.
        category: Column with its kind.
        answerable: Column with true or false, 1 or 0, yes or no.
        group: Column of what is not independent.
        meta: Columns to keep as text, for `where:` and slices.
        frames: Cells are videos, and so many frames of each, at even distances, are its images: animated images, films (extra
            `video`) or folders of frames.
        text_only: Take rows without an image as questions without one; otherwise they end the run.
        unanswerable: Column that says the opposite of `answerable`; a card names one of the two.
        separator: What parts several answers, or options, in one text: `|` in `a|b|c`.
        shuffle: Put each question's options in an order by its id, for tables in which the right option always has the same place.

    Raises:
        AdapterError: a file, column, image or value is missing or of another kind.
    """
    source = context.need_source("image_table")
    columns = Columns(
        "image_table", question, instruction, answer, answer_is, choices, id, category, answerable, group, meta,
        unanswerable, separator, shuffle,
    )  # fmt: skip
    pictures = PictureColumns.checked("image_table", image, frames, text_only)
    for split, prefix, path in files_by_split(source, files):
        of_cell = partial(_images_of, source, images=images, split=split, image_prefix=picture_prefix(images, prefix), frames=frames)
        for where, row in _rows(path, context, columns, pictures.names):
            with context.record():
                cells, listed = pictures.cells(row, where)
                named = [one for cell in cells for one in of_cell(cell, where=f"{where}: {', '.join(pictures.names)}")]
                sample = columns.sample(row, pictures.image_id(named, where), split, prefix, where)
                yield from select_sample(context, check_marks(sample, len(named), listed, where), named)


def _images_of(source: Path, cell: Any, *, images: str, split: str, image_prefix: str, frames: int | None, where: str) -> list[Named]:
    """Return (image id, reader) of a cell's image, not read yet, or of its video's frames.

    Raise AdapterError for a malformed cell or a missing video. An image that is missing or damaged raises it in its reader.
    """
    data, path = cell_content(cell)
    if data is not None:
        return frames_within(data, path, frames, where) if frames else [image_within(data, path, where)]
    if not path.strip():
        raise AdapterError(f"{where}: expected an image as a path, bytes or base64, got {cell!r:.60}")
    if len(path) > MAX_PATH and not frames:
        raise AdapterError(f"{where}: expected an image as a path, bytes or base64, got a text of {len(path):,} characters: {path!r:.40}")
    name = PurePosixPath(path).as_posix()
    place = image_path(images, split, name)
    return frames_at(source, place, image_prefix + name, frames, where) if frames else [image_at(source, place, image_prefix + name, where)]


def _rows(path: Path, context: AdapterContext, columns: Columns, pictures: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    names = [*columns.names, *pictures]
    if path.suffix.lower() in COLUMNAR:
        yield from parquet_rows(path, names, context)
        return
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from read_rows(path, "a table of questions", names, context)
        return
    for where, record in read_records(path, "a list or lines of questions", context=context):
        with context.record():
            need_columns(where, record if isinstance(record, dict) else (), [*columns.needed, *pictures])
            yield where, record
