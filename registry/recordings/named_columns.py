"""Tables of ids, answers and references: JSON, JSON Lines, CSV, TSV, Excel, Parquet.

Columns are found by the names below, or by the spec's `fields`. Nothing is guessed: where two columns could be meant, the message names
them. JSON is a list or lines of objects, an object of rows by id, an object with such a list, or columns. A column of models makes a file
that of several runs; otherwise a file is one run.

    RUN.json, or TASK/RUN.json      a file for each model
    RUN/TASK.json                   a folder for each model, where another folder has a file of the same name
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.formats.faults import Fault
from qualm.registry.formats.pictures import image_in_text
from qualm.registry.recordings.jsonl import MAX_LINE
from qualm.registry.recordings.jsonl import rows as json_lines
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record
from qualm.registry.recordings.options import FIELDS, cell_text, column_options, listed_options, take_options
from qualm.registry.recordings.record import ReadOptions, Record, RecordingError, excerpt, short_fields, texts
from qualm.registry.recordings.tables import ALL_SUFFIXES, Formula, columns, load_json, rows

NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "sample_id", "qid", "pid", "uid", "doc_id", "example_id", "problem_id", "index", "idx"),
    "prediction": (
        *("prediction", "predictions", "pred", "model_prediction", "predicted_answer", "pred_answer"),
        *("response", "responses", "model_response", "reply", "output", "outputs", "model_output", "model_answer"),
        *("generation", "generations", "generated_text", "generated_answer", "completion", "completions"),
    ),
    "target": (
        *("answer", "answers", "reference", "references", "reference_answer", "target", "label", "gold", "gold_answer"),
        *("gt", "gt_answer", "ground_truth", "groundtruth", "correct_answer"),
    ),
    "question": ("question", "query", "problem", "prompt"),
    "choices": FIELDS,
    "category": ("category", "question_type", "subject", "type"),
    "model": ("model", "model_name", "model_id"),
}
"""Our word -> usual names of the column. Of a question, options and a category the first that is there is taken."""
SEVERAL = ("question", "choices", "category")
ROW = "prediction"


def names(path: Path, source: Path, how: ReadOptions) -> frozenset[tuple[str, str]] | None:
    """Return {(run, task)} of a table, by model column or path; None unless it has answers.

    An id column and an answer column are needed. Raise RecordingError if two columns could be the answer.
    """
    if path.suffix not in ALL_SUFFIXES:
        return None
    there = columns_of(path)
    found = _find_columns(path, there, how, ("id", "prediction", "model")) if there else {}
    if found.get("id") is None or found.get("prediction") is None:
        return None
    run, task = path.stem, path.parent.name
    if path != source and path.parent != source and any(p.parent != path.parent for p in path.parent.parent.glob(f"*/{path.name}")):
        run, task = task, run
    if found["model"] is None:
        return frozenset({(run, task)})
    return frozenset((model, path.stem) for model in _models(path, found["model"], path.stat().st_mtime_ns))


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    """Yield a record or Fault per row, in order; only rows of model `how.run` if named."""
    found: dict[str, str | None] | None = None
    for item in _rows(path):
        if isinstance(item, Fault):
            yield item
            continue
        where, row = item
        if found is None:
            found = _find_columns(path, columns_of(path), how, NAMES)
        model = found["model"]
        if model is not None and how.run and str(row.get(model)) != how.run:
            continue
        formula = next((name for name, cell in row.items() if isinstance(cell, Formula)), None)
        if formula is not None:
            yield Fault(where, "a formula where a value is expected", f"{formula}: {excerpt(str(row[formula]))}")
            continue
        yield build_record(_record, where, {"row": row, "found": found}, how)


def _record(where: str, parts: dict[str, Any], how: ReadOptions) -> Record:
    row, found = parts["row"], parts["found"]

    def cell(word: str) -> Any:
        value = row.get(found[word]) if found[word] is not None else None
        return None if value is None or value != value else value

    identifier, prediction = cell("id"), cell("prediction")
    if not isinstance(identifier, str | int | float) or isinstance(identifier, bool) or identifier == "":
        raise MalformedRowError("no id", f"'{found['id']}' is {excerpt(identifier)}")
    record = Record(where, cell_text(identifier), question=cell_text(cell("question")), category=cell_text(cell("category")))
    record.split = cell_text(row.get("split"))
    replies = prediction if isinstance(prediction, list) else [] if prediction is None else [prediction]
    if not all(isinstance(reply, str | int | float) for reply in replies) or not replies:
        raise MalformedRowError("no answer", f"'{found['prediction']}' is {excerpt(prediction)}")
    record.draws = [{"text": cell_text(reply)} for reply in replies]
    target = cell("target")
    columns = column_options(row)
    options = columns if len(columns) > 1 and all(columns[:2]) else ()
    if found["choices"] is not None:
        options = listed_options(row, (found["choices"],))
    target = cell_text(target) if isinstance(target, int | float) else target
    record.references = (target,) if target in options else texts(target)  # "[0, 2]" may be an option's text
    if options and not take_options(record, options, answer_is=how.answer_is):
        record.choices, record.doubt = options, f"no option, or more than one, fits the right answer {excerpt(target)}"
    image = row.get("image")
    data = image.get("bytes") if isinstance(image, dict) else image_in_text(image) if isinstance(image, str) else image
    if isinstance(data, bytes) and data:  # no path
        record.images, record.n_pictures = (data,), 1
    record.meta = short_fields(row, {*(name for name in found.values() if name), "image", "split", *LETTERS})
    return record


def _find_columns(path: Path, there: Sequence[str], how: ReadOptions, words: Sequence[str] | Mapping[str, Any]) -> dict[str, str | None]:
    """Return {our word: column or None}, by `fields` or usual names; else RecordingError."""
    lower = {name.lower(): name for name in there}
    found: dict[str, str | None] = {}
    for word in words:
        named = how.fields.get(word)
        if named is not None:
            if named not in there:
                raise RecordingError(f"{path}: fields: {word}: no column '{named}'; there are: {', '.join(there)}")
            found[word] = named
            continue
        taken = {*how.fields.values(), *found.values()}
        usual = [lower[name] for name in NAMES[word] if name in lower and lower[name] not in taken]
        if word in ("prediction", "target") and len(usual) > 1:
            what = f"{' and '.join(usual)} could each be the {'answer of the model' if word == 'prediction' else 'reference'}"
            raise RecordingError(f"{path}: {what}; say which, `fields: {{{word}: {usual[0]}}}`; there are: {', '.join(there)}")
        found[word] = usual[0] if usual else None
    return found


@lru_cache(64)
def _models(path: Path, column: str, mtime_ns: int) -> tuple[str, ...]:
    """Return the distinct model names in a table's column, in order, cached.

    `mtime_ns` is part of the cache's key.
    """
    cells = (item[1].get(column) for item in _rows(path) if not isinstance(item, Fault))
    return tuple(dict.fromkeys(str(cell) for cell in cells if cell is not None))


def columns_of(path: Path) -> list[str]:
    """Return a table's column names; [] if the file is no table or has no rows.

    Of Parquet and Arrow files the schema is read, whether they have rows or not.
    """
    if path.suffix not in ALL_SUFFIXES:
        return []
    if path.suffix != ".json":
        return columns(path)
    try:
        first = next((item[1] for item in _rows(path) if not isinstance(item, Fault)), {})
    except (RecordingError, OSError):
        return []
    return list(first)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]] | Fault]:
    """Yield (place, row) or a Fault for each row of a table of any format.

    The place is "FILE:LINE", or "FILE[KEY]" in a JSON value.
    """
    if path.suffix != ".json":
        yield from rows(path)
        return
    if _has_lines(path):  # JSON Lines under another name
        yield from json_lines(path)
        return
    content = load_json(path)
    listed_rows = _listed_rows(content)
    if listed_rows is None:
        yield from rows(path)
        return
    for number, (key, row) in enumerate(listed_rows):
        if not isinstance(row, dict):
            yield Fault(f"{path.name}[{key}]", "not an object", excerpt(row))
            continue
        by_id = key != number and not any(name.lower() in NAMES["id"] for name in row)
        yield f"{path.name}[{key!r:.60}]", {"id": key, **row} if by_id else row


def _has_lines(path: Path) -> bool:
    """Return whether a .json file is JSON Lines, by its first two lines."""
    with path.open("rb") as handle:
        first, second = handle.readline(MAX_LINE), handle.readline(1024)
    try:
        return second.lstrip().startswith(b"{") and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _listed_rows(content: Any) -> list[tuple[Any, Any]] | None:
    """Return [(key or index, row)] of a JSON list or object of rows; None for other values.

    Rows are the items of a list, the members of an object by id, or the only list in an object.
    """
    if isinstance(content, list):
        return list(enumerate(content))
    if not isinstance(content, dict) or not content:
        return None
    if all(isinstance(value, dict) for value in content.values()):
        return list(content.items())
    if all(isinstance(value, str) for value in content.values()):
        return [(key, {ROW: value}) for key, value in content.items()]
    tables = [v for v in content.values() if isinstance(v, list) and v and all(isinstance(row, dict) for row in v)]
    return list(enumerate(tables[0])) if len(tables) == 1 else None
