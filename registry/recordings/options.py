"""Options of a question in logs without a field for them, from document or prompt."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.recordings.record import Record, letter_index, texts

_LINE = re.compile(r"\s*\(?([A-Z])[.):]\)?\s+(\S.*?)\s*")
FIELDS = ("choices", "options")


def parse_lettered(prompt: str) -> tuple[str, tuple[str, ...]] | None:
    r"""Return (text before, option texts) of a prompt's last list "A. ..."; or None.

    >>> parse_lettered("What is it?\nA. a cat\nB. a dog\nAnswer with the letter.")
    ('What is it?', ('a cat', 'a dog'))
    >>> parse_lettered("What is it?\nA. a cat\n\nB. a dog\n\nC. a fox")
    ('What is it?', ('a cat', 'a dog', 'a fox'))
    """
    lines = prompt.splitlines()
    matches = [_LINE.fullmatch(line) for line in lines]
    starts = [i for i, match in enumerate(matches) if match and match[1] == "A"]
    for start in reversed(starts):
        options: list[str] = []
        for i in range(start, len(lines)):
            if (match := matches[i]) is not None and match[1] == LETTERS[len(options) : len(options) + 1]:
                options.append(match[2])
            elif lines[i].strip():
                break
        if len(options) > 1:
            return "\n".join(lines[:start]).strip(), tuple(options)
    return None


def column_options(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the option texts in columns A, B, ... up to the last one filled; () if none is.

    An empty column between them is an empty option, so that letters of answers keep their meaning.

    >>> column_options({"A": "cat", "B": "", "C": 3.0, "D": None})
    ('cat', '', '3')
    """
    cells = [cell_text(row.get(letter)) for letter in LETTERS]
    return tuple(cells[: max((i + 1 for i, cell in enumerate(cells) if cell), default=0)])


def cell_text(cell: Any) -> str:
    """Return a cell as text: "" for None or NaN, whole floats without `.0`."""
    if cell is None or cell != cell:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def listed_options(doc: Mapping[str, Any], names: Sequence[str] = FIELDS) -> tuple[str, ...]:
    """Return the first list of two or more option texts under one of `names`; () if none."""
    for name in names:
        options = doc.get(name)
        options = options.get("text") if isinstance(options, dict) else options
        options = list(texts(options)) if isinstance(options, str) and options[:1] == "[" else options
        if isinstance(options, list) and len(options) >= 2 and all(isinstance(option, str) for option in options):
            return tuple(options)
    return ()


def option_index(target: Sequence[str], options: Sequence[str], answer_is: str = "auto") -> int | None:
    """Return the index of the only option that fits `target`, by text or letter; or None.

    >>> option_index(["C"], ["B", "C", "D", "A"]), option_index(["C"], ["B", "C", "D", "A"], "letter")
    (None, 2)
    """
    if len(target) != 1:
        return None
    text = target[0].strip()
    by_text = [i for i, option in enumerate(options) if option.strip() == text and answer_is != "letter"]
    by_letter = None if answer_is == "text" else letter_index(text, len(options))
    places = {place for place in (by_letter, *by_text) if place is not None}
    return places.pop() if len(places) == 1 else None


def take_options(record: Record, options: Sequence[str], place: int | None = None, answer_is: str = "auto") -> bool:
    """Return whether an option fits the references; if so, set options, drop references.

    Args:
        place: index of the right option, if it is known without the target.
        answer_is: whether the target is a `letter` or `text`; `auto` takes either.
    """
    place = option_index(record.references, options, answer_is) if place is None else place
    if place is None:
        return False
    record.choices, record.answer_index, record.references = tuple(options), place, ()
    return True


def take_lettered_options(record: Record) -> None:
    """Take options from the prompt's lettered list (cut off the question) if one is right."""
    in_prompt = parse_lettered(record.prompt)
    if in_prompt is None or option_index(record.references, in_prompt[1]) is None:
        return
    in_question = parse_lettered(record.question)
    if in_question is not None and in_question[0] and in_question[1] == in_prompt[1]:
        record.question = in_question[0]
    take_options(record, in_prompt[1])
