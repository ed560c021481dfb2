"""How often the reader of options reads real replies as the benchmarks' authors did."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from qualm.registry import LETTERS
from qualm.runners.plugins.judges._choices import OptionReading, read
from tests.bench.replies.figures import REPLIES, Figure

OPTIONS_OF_BLINK = {
    "Jigsaw": ["the second image", "the third image"],
    "Art_Style": ["the second image", "the third image"],
    "Visual_Similarity": ["the second image", "the third image"],
    "Spatial_Relation": ["yes", "no"],
    "Multi-view_Reasoning": ["left", "right"],
    "Object_Localization": ["Box A", "Box B"],
    "Relative_Depth": ["A is closer", "B is closer"],
    "Relative_Reflectance": ["A is darker", "B is darker", "About the same"],
    "Forensic_Detection": ["the first image", "the second image", "the third image", "the fourth image"],
}
"""Options of the tasks where they are the same for all questions, as the replies quote them; of the others only the letters are known."""
LABELLED = Path(__file__).parents[2] / "data" / "choices.csv"


def figures() -> Iterator[Figure]:
    """Yield the agreement with each set of replies."""
    yield from blink(letters_only=True)
    yield from blink(letters_only=False)
    yield from mathvista()
    yield from mmmu_pro()
    yield _labelled("replies of public issues", REPLIES / "option_replies.csv")
    yield _labelled("our labelled replies (tests/data/choices.csv)", LABELLED)


def blink(letters_only: bool) -> Iterator[Figure]:
    """Yield figures of long replies to BLINK; which option a reply names was read by a language model of the authors.

    Args:
        letters_only: The reader is told the letters alone. Then it cannot read "the second image shares the style", which names none:
            replies in which no letter stands are counted on a line of their own, with those that name a letter that the question lacks.
    """
    rows = [(r, _options_of(r["id"], letters_only)) for r in _load("blink_long_replies.json")]
    read_rows = [(r, options, _reading(r["reply"], tuple(options))) for r, options in rows]
    known = [(r, options, reading) for r, options, reading in read_rows if r["read_by_authors"][0] != "Z"]
    name = "BLINK, letters alone" if letters_only else "BLINK, options of each task"
    told = [row for row in known if not letters_only or _names_a_letter(row[0]["reply"], LETTERS[: len(row[1])])]
    unread = [reading.place is None for _, _, reading in told]
    where = ", where a letter is named" if letters_only else ""
    yield Figure(f"{name}: unread{where}", _share(unread), len(unread), at_most=0.03 if letters_only else None)
    both = [LETTERS[reading.place] == r["read_by_authors"][0] for r, _, reading in told if reading.place is not None]
    yield Figure(f"{name}: agreement where both read", _share(both), len(both), at_least=0.98)
    if letters_only:
        yield Figure(f"{name}: unread of all", _share([reading.place is None for _, _, reading in known]), len(known))
    none = [reading.place is not None for r, _, reading in read_rows if r["read_by_authors"] == "Z"]
    yield Figure(f"{name}: read where the authors read nothing", _share(none), len(none))


def mathvista() -> Iterator[Figure]:
    """Yield figures of MathVista's multiple choice. InstructBLIP goes on with the list of options: the authors' reading there is chance."""
    rows = [r for r in _load("mathvista.json") if r["question_type"] == "multi_choice"]
    readings = [read(r["reply"], r["choices"]) for r in rows]
    both = [
        (r["choices"][reading.place] == r["answer"]) == r["right_by_authors"]
        for r, reading in zip(rows, readings, strict=True)
        if reading.place is not None
    ]
    yield Figure("MathVista: right where the authors say right, of those read", _share(both), len(both), at_least=0.97)
    for model in sorted({r["model"] for r in rows}):
        unread = [reading.place is None for r, reading in zip(rows, readings, strict=True) if r["model"] == model]
        yield Figure(f"MathVista: unread of {model}", _share(unread), len(unread))


def mmmu_pro() -> Iterator[Figure]:
    """Yield figures of ten-option questions. Read by hand, all 27 disagreements are errors of the authors' parser."""
    rows = _load("mmmu_pro_gpt4o.json")
    readings = [read(r["reply"], ast.literal_eval(r["options"]), r["question"]) for r in rows]
    unread = [reading.place is None for reading in readings]
    yield Figure("MMMU-Pro: unread", _share(unread), len(unread), at_most=0.02)
    both = [LETTERS[reading.place] == r["read_by_authors"] for r, reading in zip(rows, readings, strict=True) if reading.place is not None]
    yield Figure("MMMU-Pro: agreement with the authors' parser where both read", _share(both), len(both))


def disagreements() -> Iterator[tuple[str, str, str]]:
    """Yield, of MMMU-Pro, the letter that the authors read, ours, and the end of the reply."""
    for r in _load("mmmu_pro_gpt4o.json"):
        place = read(r["reply"], ast.literal_eval(r["options"]), r["question"]).place
        if place is not None and LETTERS[place] != r["read_by_authors"]:
            yield r["read_by_authors"], LETTERS[place], r["reply"][-80:]


def letter_of(reading: OptionReading) -> str:
    """Return a reading as the tables have it: a letter, `idk`, or nothing where the reply cannot be read."""
    return "idk" if reading.declines else "" if reading.place is None else LETTERS[reading.place]


def _labelled(name: str, file: Path) -> Figure:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    right = [letter_of(read(r["reply"], r["choices"].split("|"), r.get("question", ""))) == r["reads"] for r in rows]
    return Figure(f"{name}: read as labelled", _share(right), len(right), at_least=1.0)


@cache
def _reading(reply: str, options: tuple[str, ...]) -> OptionReading:
    return read(reply, options)


def _options_of(name: str, letters_only: bool) -> list[str]:
    task = name.removeprefix("val_").rpartition("_")[0]
    options = OPTIONS_OF_BLINK.get(task, list("ABCD"))
    return list(LETTERS[: len(options)]) if letters_only else options


def _names_a_letter(reply: str, letters: str) -> bool:
    """State that a reply has a letter that may be an option's, and none in brackets beyond them; "a" before a noun is none."""
    if set(re.findall(r"\(([A-Z])\)", reply)) - set(letters):
        return False
    return (
        re.search(
            r"(?<![A-Za-z])[B-D](?![A-Za-z])|(?<![A-Za-z])A(?![A-Za-z])(?! [a-z])|(?:[Pp]oint|[Bb]ox|[Pp]icture|[Oo]ption) A\b", reply
        )
        is not None
    )


def _load(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((REPLIES / name).read_text(encoding="utf-8"))
    return loaded


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)
