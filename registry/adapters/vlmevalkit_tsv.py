"""Tables in VLMEvalKit's layout: index, question, A, B..., answer, images in cells."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._mapped import Columns, files_by_split, image_path, picture_prefix
from qualm.registry.adapters._official import read_rows, select
from qualm.registry.adapters._table_pictures import TablePictures
from qualm.registry.formats.text_tables import EXPORT_COLUMN, unescape_formula
from qualm.registry.recordings.vlmevalkit import question_of
from qualm.registry.sample import Image, Sample

LETTERS = "ABCDEFGHIJ"
TABLE_NAME = "a table of VLMEvalKit"

META = ["l2-category", {"of": "meta"}]


def vlmevalkit_tsv(
    context: AdapterContext,
    *,
    files: dict[str, str] = {"test": "*.tsv"},  # noqa: B006 - a literal, never changed
    kind: Literal["auto", "multiple_choice", "open"] = "auto",
    images: str = ".",
    meta: list[str] = [],  # noqa: B006
) -> Iterator[Image | Sample]:
    """Yield a question per row of TSV tables in VLMEvalKit's layout; the id is `index`.

    `qualm data new` writes the card. Columns are VLMEvalKit's: `index`, `question`, optional `hint` (a line above the question), `A`,
    `B`... (options, up to the first empty one), `answer` (a letter with options; else a text, or a JSON list of texts), `category`,
    `l2-category` (kept in meta), and an image: `image` as base64 or as the index of the row that has it, or `image_path` beside the
    table. Rows whose indices differ by a multiple of 1,000,000 are rotations of one question and one group; open questions on one image
    are a group.

    Args:
        files: Split -> path or pattern; several files of a split are read one after the other.
        kind: Whether questions have options; `auto` = the table has columns A and B.
        images: The folder that `image_path` begins in; `{split}` in it stands for the split.
        meta: Further columns to keep as text, for `where:` and slices.

    Raises:
        AdapterError: a file, column, image or value is missing or of another kind.
    """
    source = context.need_source("vlmevalkit_tsv")
    for split, prefix, path in files_by_split(source, files):
        head = next(read_rows(path, TABLE_NAME, ("index", "question")), (str(path), dict[str, str]()))[1]
        columns, pictures = _columns(path, head, kind, meta), TablePictures(path, context, TABLE_NAME) if "image" in head else None
        for where, cells in read_rows(path, TABLE_NAME, context=context):
            row = {name: unescape_formula(cell) for name, cell in cells.items()} if EXPORT_COLUMN in cells else cells
            with context.record():
                sample = columns.sample(row, None, split, prefix, where)
                image, name = None, ""
                if pictures is not None:
                    image_id, image = pictures.read(row["index"], row["image"], where)
                elif row.get("image_path"):
                    name = _single_path(row["image_path"], where)
                    image_id = picture_prefix(images, prefix) + name
                else:
                    raise AdapterError(f"{where}: no image; expected a column `image` (base64) or `image_path`")
                group = prefix + question_of(row["index"]) if columns.choices else image_id
                question = f"{row['hint']}\n{sample.question}" if row.get("hint") else sample.question
                sample = replace(sample, image_id=image_id, group=group, question=question)
                if pictures is None:
                    yield from select(context, sample, (image_path(images, split, name),), where)
                else:
                    yield from pictures.select(sample, row["index"], image, where)


def _columns(path: Path, there: Collection[str], kind: str, meta: Sequence[str]) -> Columns:
    letters = [c for c in LETTERS if c in there] if kind != "open" and {"A", "B"} <= set(there) else []
    if kind == "multiple_choice" and not letters:
        raise AdapterError(f"{path}: kind: multiple_choice: expected the columns A and B; there are: {', '.join(there)}")
    return Columns(
        "vlmevalkit_tsv",
        question="question",
        answer="answer" if "answer" in there else None,
        answer_is="letter",
        choices=letters,
        id="index",
        category="category" if "category" in there else None,
        meta=[*(["l2-category"] if "l2-category" in there else []), *meta],
    )


def _single_path(cell: str, where: str) -> str:
    """Return the path in a cell, plain or as a JSON list of one; else AdapterError."""
    if cell.lstrip().startswith("["):
        try:
            paths = json.loads(cell)
        except (ValueError, RecursionError) as error:
            raise AdapterError(f"{where}: image_path: expected a path, or a list as JSON: {error}") from error
        if not isinstance(paths, list) or len(paths) != 1 or not isinstance(paths[0], str):
            raise AdapterError(f"{where}: image_path: expected one image, got {paths!r:.60}; a question has one here")
        return paths[0]
    return cell
