"""A table of questions with paths of pictures beside it: CSV, TSV, JSON Lines or a JSON list. For data of one's own."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from qualm.registry.adapters import AdapterContext
from qualm.registry.adapters._mapped import Columns, need_columns, parts, picture_prefix, placed
from qualm.registry.adapters._official import read_image, read_records, read_rows, text_of
from qualm.registry.adapters._pictures import Named, PictureColumns, frames_at, selected, settled
from qualm.registry.sample import Image, Sample

META = [{"of": "meta"}]


def image_table(
    context: AdapterContext,
    *,
    files: dict[str, str] = {"test": "test.csv"},  # noqa: B006 - a literal, never changed
    images: str = ".",
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

    Without a column of ids a sample's is a digest of picture, question and options. Questions on one picture (where they have several: on
    the same first one) are a group unless a column says otherwise. With several splits their names stand before the samples' ids, and
    before the pictures' where `images` has `{split}`. Nothing is guessed: a cell that is not what its column is said to hold ends the run
    with file and line.

    Args:
        files: Split -> path or pattern. `.csv`, `.tsv`; anything else is JSON: a list of objects, or one on each line.
        images: The folder that the pictures' paths begin in; `{split}` in it stands for the split.
        image: Column with the picture's path, or a list of paths (in CSV as JSON); or columns, whose empty cells are passed over;
            null = questions without pictures. A question of several may hold `<image>` for each where it stands.
        question: Column with the question.
        prompt: Asked of every row where there is no column of questions, or put above it.
        answer: Column with the answer, or a list of them (in CSV as JSON); of multiple choice the right option; null = not known.
        answer_is: With options, what stands in that column: an option's text, letter or place.
        choices: One column with a list of options, or a column for each.
        id: Column with a stable name of the row.
        category: Column with its kind.
        answerable: Column with true or false, 1 or 0, yes or no.
        group: Column of what is not independent.
        meta: Columns to keep as text, for `where:` and slices.
        frames: Cells are videos, and so many frames of each, at even distances, are its pictures: animated pictures, films (extra
            `video`) or folders of frames.
        text_only: Take rows without a picture as questions without one; otherwise they end the run.
        unanswerable: Column that says the opposite of `answerable`; a card names one of the two.

    Raises:
        AdapterError: a file, column, picture or value is missing or of another kind.
    """
    source = context.need_source("image_table")
    columns = Columns("image_table", question, prompt, answer, answer_is, choices, id, category, answerable, group, meta, unanswerable)
    pictures = PictureColumns.of("image_table", image, frames, text_only)
    for split, prefix, path in parts(source, files):
        before = picture_prefix(images, prefix)
        for where, row in _rows(path, context, columns, pictures.names):
            with context.record():
                cells, listed = pictures.cells(row, where)
                named: list[Named] = []
                for cell in cells:
                    name = PurePosixPath(text_of({"picture": cell}, "picture", where)).as_posix()
                    place = placed(images, split, name)
                    if pictures.frames:
                        named += frames_at(source, place, before + name, pictures.frames, where)
                    else:
                        named.append((before + name, partial(read_image, source, (place,), before + name, where)))
                sample = columns.sample(row, pictures.image_id(named, where), split, prefix, where)
                yield from selected(context, settled(sample, len(named), listed, where), named)


def _rows(path: Path, context: AdapterContext, columns: Columns, pictures: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix.lower() in (".csv", ".tsv"):
        yield from read_rows(path, "a table of questions", [*columns.names, *pictures], context)
        return
    for where, record in read_records(path, "a list or lines of questions", context=context):
        with context.record():
            need_columns(where, record if isinstance(record, dict) else (), [*columns.needed, *pictures])
            yield where, record
