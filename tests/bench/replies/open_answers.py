"""Agreement of the judges of open answers with people's readings."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges.final_value import final_value
from qualm.runners.plugins.judges.rules import rules
from tests.bench.replies.figures import REPLIES, Figure

OWN = Path(__file__).parents[2] / "data" / "open_answers.csv"
"""Replies that were written for this purpose; part of the repository."""
UNREAD = "unread"

Row = tuple[str, list[str], str, float | None]
"""Question, references, reply and its right rating."""


def figures() -> Iterator[Figure]:
    """Yield the agreement with each set of replies; an unread reply agrees with nobody, except where unread is right."""
    short = short_answers()
    told = sum((judgement.rating == 1) == (row[3] == 1) for judgement, row in zip(_judged(short, rules), short, strict=True))
    yield Figure("rules, short answers (open_answers.csv): right or not", told / len(short), len(short), at_least=1.0)
    rows = mathvista()
    yield _agreement("final_value, MathVista free-form", rows, _rounded, at_least=0.97)
    yield _agreement("final_value, MathVista free-form, right answers", [row for row in rows if row[3]], _rounded, at_least=0.85)
    unread = sum(judgement.rating is None for judgement in _judged(rows, _rounded)) / len(rows)
    yield Figure("final_value, MathVista free-form, unread", unread, len(rows), at_most=0.03)
    yield _agreement("rules, MathVista free-form", rows, rules, at_least=0.97)
    for split in ("dev", "held_out", "later", "natural"):
        yield _agreement(f"rules, own sentences ({split})", own_answers(split), rules, at_least=0.9)


def short_answers() -> list[Row]:
    """Return the rows of open_answers.csv whose rating is given. "Yes/No", labelled 0, is to be unread: only what is right is compared."""
    with (REPLIES / "open_answers.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["right_rating"]]
    return [(row["question"], [row["reference"]], row["reply"], float(row["right_rating"])) for row in rows]


def mathvista() -> list[Row]:
    """Return the free-form answers of MathVista; questions are not part of the file."""
    rows = json.loads((REPLIES / "mathvista.json").read_text(encoding="utf-8"))
    free = [row for row in rows if row["question_type"] == "free_form"]
    return [("", [str(row["answer"])], row["reply"], float(row["right_by_authors"])) for row in free]


def own_answers(split: str) -> list[Row]:
    """Return the rows of a part of tests/data/open_answers.csv."""
    with OWN.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split]
    return [
        (
            row["question"],
            row["references"].replace("\\n", "\n").split("|"),
            row["reply"].replace("\\n", "\n"),
            None if row["rating"] == UNREAD else float(row["rating"]),
        )
        for row in rows
    ]


def _rounded(questions: list[str], references: list[list[str]], replies: list[str]) -> list[Judgement]:
    return final_value(questions, references, replies, rounded=True)


Judge = Callable[[list[str], list[list[str]], list[str]], list[Judgement]]


def _judged(rows: Sequence[Row], judge: Judge) -> list[Judgement]:
    return judge([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _agreement(name: str, rows: Sequence[Row], judge: Judge, at_least: float) -> Figure:
    agreed = sum(judgement.rating == row[3] for judgement, row in zip(_judged(rows, judge), rows, strict=True))
    return Figure(name, agreed / len(rows), len(rows), at_least=at_least)
