"""VLMEvalKit: predictions `MODEL_DATA.xlsx`, `.tsv` or `.json`, and its input `DATA.tsv` with the images.

Predictions: index, question, hint, A, B..., answer, category, split and whatever else the input has but its image, and
`prediction`: one text per question, no probabilities. An answer of which VLMEvalKit itself says that it failed is left out.
Input: the same without the prediction, with `image`: base64, a list of such, or another row's index (at most 64 characters).
"""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.picture_lists import MAX_IMAGES
from qualm.registry.recordings.options import cell_text, column_options
from qualm.registry.recordings.record import ODD, ReadOptions, Record, excerpt, letter_index, short_fields, texts, verdict
from qualm.registry.recordings.signals import KEY, SignalError, unpack
from qualm.registry.recordings.tables import SUFFIXES, Formula, columns, rows
from qualm.registry.text import list_in_text

FAILED = "Failed to obtain answer"
"""Text that VLMEvalKit writes for a failed request (`smp/file.py`)."""
POINTER = 64
"""An image cell of at most so many characters is the index of another row."""

ROTATION = 1_000_000
"""Copy k of question i, with its options turned by k places, is row i + k * ROTATION."""


def question_of(index: str) -> str:
    """Return "question N" of a row's index, the same for all rotations of its options.

    >>> question_of("7"), question_of("3000007"), question_of("a7"), question_of("9" * 5000)
    ('question 7', 'question 7', 'question a7', 'question 999999')
    """
    number = index.removesuffix(".0")  # as pandas writes a column with a gap
    # Python converts no number of thousands of digits; the last ones give the same remainder.
    return f"question {int(number[-18:]) % ROTATION}" if number.isascii() and number.isdecimal() else f"question {index}"


def has_rotations(path: Path) -> bool:
    """Return whether a table asks a question again with rotated options."""
    seen: set[str] = set()
    for item in rows(path):
        if not isinstance(item, Fault) and item[1].get("index") is not None:
            question = question_of(cell_text(item[1]["index"]))
            if question in seen and question.rpartition(" ")[2] != cell_text(item[1]["index"]).removesuffix(".0"):
                return True
            seen.add(question)
    return False


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix not in SUFFIXES or not {"index", "prediction"} <= set(columns(path)):
        return None
    parts = path.stem.split("_")
    splits = {("_".join(parts[:i]), "_".join(parts[i:])) for i in range(1, len(parts))} or {("", path.stem)}
    return frozenset(splits | {(path.parent.name, task) for _, task in splits})


def input_tables(source: Path) -> dict[str, Path]:
    """Return {task: TSV file with its questions and images} in a recording."""
    paths = sorted(p for p in source.rglob("*.tsv") if p.is_file() and not p.is_symlink()) if source.is_dir() else []
    tables: dict[str, Path] = {}
    for path in paths:
        there = set(columns(path))
        if {"index", "question"} <= there and "prediction" not in there:
            tables.setdefault(path.stem, path)
    return tables


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    """Yield a record, or a Fault, for each row of predictions or of an input table."""
    for item in rows(path):
        if isinstance(item, Fault):
            yield item
            continue
        where, row = item
        formulas = [name for name, cell in row.items() if isinstance(cell, Formula)]
        if formulas:
            yield Fault(where, "a formula where a value is expected", f"{formulas[0]}: {excerpt(str(row[formulas[0]]))}")
            continue
        try:
            yield _record(where, row, how)
        except ODD as error:
            yield Fault(where, "not a row of this format", f"{type(error).__name__}: {error}")


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record | Fault:
    field = how.fields.get
    identifier = row.get(field("id", "sample_id")) if field("id") or row.get("sample_id") is not None else row.get("index")
    if identifier is None or not isinstance(identifier, str | int | float):
        return Fault(where, "no id", f"'{field('id', 'index')}' is {excerpt(identifier)}")
    name = cell_text(identifier)
    record = Record(where, name, category=cell_text(row.get(field("category", "category"))), split=cell_text(row.get("split")))
    hint, question = cell_text(row.get("hint")), cell_text(row.get(field("question", "question")))
    record.question = f"{hint}\n{question}" if hint else question
    record.choices = column_options(row)
    answer = row.get(field("target", "answer"))
    if answer is not None:
        text = cell_text(answer)
        if record.choices:
            place = letter_index(text, len(record.choices))
            record.answer_index = place if place is not None and record.choices[place] else None
        record.references = () if record.answer_index is not None else texts(text if not isinstance(answer, list) else answer)
    used = {"index", "question", "hint", *LETTERS, "answer", "category", "split", "prediction", "image", "sample_id", KEY}
    record.meta = short_fields(row, used | set(how.fields.values()))
    if "prediction" in row or KEY in row:
        text = cell_text(row.get("prediction"))
        if FAILED in text:
            return Fault(where, "an answer that VLMEvalKit could not get", excerpt(text))
        try:
            cell = row.get(KEY)
            signals = {} if cell is None else unpack(json.loads(cell) if isinstance(cell, str) else cell)
            record.draws = [{"text": text, **verdict(row, ("hit",)), **signals}]
        except (SignalError, ValueError) as error:
            return Fault(where, f"damaged '{KEY}'", str(error))
    return record


@dataclass(frozen=True)
class Picture:
    """A row's image cell in an input table: image files, the row that has them, or a fault."""

    id: str
    index: str
    data: tuple[bytes, ...] = ()
    pointer: str = ""
    """The index of the row that has the image, where this one has not."""
    fault: str = ""


def pictures(path: Path) -> Iterator[Picture]:
    """Yield a `Picture` per readable row of an input table, in order; bad images as `fault`."""
    for item in rows(path):
        if isinstance(item, Fault):
            continue
        where, row = item
        index, cell = cell_text(row.get("index")), row.get("image")
        name = cell_text(row.get("sample_id")) or index
        listed = _listed(cell) if isinstance(cell, str) else ()
        if not listed:
            yield Picture(name, index)
        elif len(listed) == 1 and len(listed[0]) <= POINTER:
            yield Picture(name, index, pointer=listed[0])
        else:
            yield _decoded(name, index, listed, where)


def _listed(cell: str) -> Sequence[str]:
    """Return a cell's base64 texts: items of a list as JSON or Python text, or (cell,)."""
    if cell[:1] != "[":
        return (cell,)
    items = list_in_text(cell)
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else (cell,)


def _decoded(name: str, index: str, cells: Sequence[str], where: str) -> Picture:
    if len(cells) > MAX_IMAGES:
        return Picture(name, index, fault=f"{where}: has {len(cells):,} images; more than {MAX_IMAGES} cannot be read")
    bare = [cell.partition(",")[2] if cell.startswith("data:") else cell for cell in cells]
    try:
        return Picture(name, index, tuple(base64.b64decode(cell, validate=True) for cell in bare))
    except (binascii.Error, ValueError) as error:
        return Picture(name, index, fault=f"{where}: image: not base64: {error}")
