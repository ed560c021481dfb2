"""SEED-Bench, released predictions: evaluate_result/SEED-Bench-1/MODEL.json, an object per question.

    {"question_id": "101669", "prediction": "A", "gt_answer": "A"},

Every line but perhaps the last ends with a comma, so the file is neither JSON nor JSON Lines. `prediction` is text, mostly a letter;
questions and options are not in it. The right letter is, and is held to the sample's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.formats.faults import Fault
from qualm.registry.recordings.jsonl import keys, rows
from qualm.registry.recordings.lm_eval import MalformedRowError, build_record, checked_id
from qualm.registry.recordings.record import ReadOptions, Record, excerpt, letter_index

OPTIONS = 4
SUFFIXES = (".json", ".jsonl", ".txt")
LINE_SEPARATOR = b","
TASK = "seedbench"


def names(path: Path) -> frozenset[tuple[str, str]] | None:
    if path.suffix not in SUFFIXES or not {"question_id", "prediction", "gt_answer"} <= keys(path, LINE_SEPARATOR):
        return None
    return frozenset({(path.stem, TASK), (path.stem, path.parent.name)})


def read(path: Path, how: ReadOptions) -> Iterator[Record | Fault]:
    for item in rows(path, LINE_SEPARATOR):
        yield item if isinstance(item, Fault) else build_record(_record, *item, how)


def _record(where: str, row: dict[str, Any], how: ReadOptions) -> Record:
    identifier = checked_id(row.get(how.fields.get("id", "question_id")), "question_id")
    if not isinstance(row.get("prediction"), str):
        raise MalformedRowError("no response", excerpt(row.get("prediction")))
    right = row.get("gt_answer")
    place = letter_index(right, OPTIONS) if isinstance(right, str) else None
    if place is None:
        raise MalformedRowError("a right answer that is not a letter", excerpt(right))
    return Record(where, identifier, choices=tuple(LETTERS[:OPTIONS]), answer_index=place, draws=[{"text": row["prediction"]}])
