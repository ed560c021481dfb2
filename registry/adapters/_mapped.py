"""Samples from tables of any origin, by the columns that a card names: `Columns` makes a sample of a row, {column: value}."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from qualm.registry import LETTERS
from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._fields import need_columns, value_at
from qualm.registry.formats.picture_lists import picture_ids
from qualm.registry.sample import Sample
from qualm.registry.system.dvc_objects import lies_in
from qualm.registry.text import list_in_text

AnswerIs = Literal["text", "letter", "index", "index_from_1"]
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
MAX_PLAIN = 1e21
"""From here on a whole number keeps its exponent, as in JSON."""
MAX_TEXT = 100_000
"""Characters of one text; more is no question, answer or option."""


@dataclass(frozen=True)
class Columns:
    """Names of the table columns that hold each field of a sample; None or empty if none does."""

    source: str
    """Name of the adapter."""
    question: str | None = None
    instruction: str | None = None
    """Asked of every row where there is no column of questions, or put above the question where there is."""
    answer: str | None = None
    answer_is: AnswerIs = "text"
    choices: Sequence[str] = ()
    """One column with a list of options, or a column for each."""
    id: str | None = None
    category: str | None = None
    answerable: str | None = None
    group: str | None = None
    meta: Sequence[str] = ()
    unanswerable: str | None = None
    """The other way round than `answerable`; one of the two at most."""
    separator: str | None = None
    """Parts several answers, or options, in one text."""
    shuffle: bool = False
    """Order the options by digests, for tables whose right option has a fixed place."""

    @property
    def needed(self) -> list[str]:
        single = (self.question, self.answer, self.id, self.category, self.answerable, self.unanswerable, self.group)
        return list(dict.fromkeys([*(c for c in single if c), *self.choices]))

    @property
    def names(self) -> list[str]:
        """Return the names of all columns that are read, each once; those of `meta` come last."""
        return list(dict.fromkeys([*self.needed, *self.meta]))

    def sample(self, row: Mapping[str, Any], image_id: str | None, split: str, prefix: str, where: str) -> Sample:
        """Return a row's `Sample`, its id `prefix` + id column or digest; else AdapterError."""
        need_columns(where, row, self.needed)
        row = {name: value_at(row, name, where) for name in self.names}
        lines = [self.instruction] if self.instruction else []
        lines += [_text(row[self.question], self.question, where)] if self.question else []
        if not lines:
            raise AdapterError(f"{where}: no question; on the card, name its column by `question`, or give an `instruction` for every row")
        listed = self._choices(row, where)
        answers = self._answers(row, where)
        answerable = self._answerable(row, where)
        name = _short(row[self.id], self.id, where) if self.id else _digest(image_id, *lines, *listed)
        right = self._right(answers, listed, where) if listed and answers else None
        order = sorted(range(len(listed)), key=lambda place: _digest(name, listed[place])) if self.shuffle else [*range(len(listed))]
        return Sample(
            sample_id=f"{prefix}{name}",
            question="\n".join(lines),
            image_id=image_id,
            references=tuple(answers) if not listed else (),
            choices=tuple(listed[place] for place in order),
            answer_index=None if right is None else order.index(right),
            category=_short(row[self.category], self.category, where) if self.category and not _empty(row[self.category]) else "",
            answerable=answerable,
            split=split,
            source=self.source,
            group=_short(row[self.group], self.group, where) if self.group else next(iter(picture_ids(image_id)), ""),
            meta={c: _plain(row[c]) for c in self.meta if not _empty(row.get(c))},
        )

    def _answerable(self, row: Mapping[str, Any], where: str) -> bool:
        if self.answerable and self.unanswerable:
            raise AdapterError(f"{where}: `answerable` and `unanswerable` both name a column; keep only one")
        if self.unanswerable:
            return not _truth(row[self.unanswerable], self.unanswerable, where)
        return _truth(row[self.answerable], self.answerable, where) if self.answerable else True

    def _choices(self, row: Mapping[str, Any], where: str) -> tuple[str, ...]:
        if not self.choices:
            return ()
        if len(self.choices) == 1:
            cells = self._list(row[self.choices[0]], self.choices[0], where)
        else:
            cells = [row[c] for c in self.choices]
            n = next((i for i, cell in enumerate(cells) if _empty(cell)), len(cells))
            if not all(map(_empty, cells[n:])):
                raise AdapterError(f"{where}: {', '.join(self.choices)}: expected options without a gap, got {cells!r:.120}")
            cells = cells[:n]
        options = tuple(_text(cell, "an option", where) for cell in cells)
        if len(options) == 1:
            raise AdapterError(f"{where}: {', '.join(self.choices)}: expected two options at least, got {options!r:.120}")
        return options

    def _answers(self, row: Mapping[str, Any], where: str) -> list[str]:
        if self.answer is None or _empty(row[self.answer]):
            return []
        value = row[self.answer]
        listed = isinstance(value, list | tuple) or (isinstance(value, str) and value.lstrip().startswith("["))
        parted = isinstance(value, str) and self.separator is not None and not self.choices and self.separator in value
        cells = self._list(value, self.answer, where) if listed or parted else [value]
        return [_text(cell, self.answer, where) for cell in cells if not _empty(cell)]

    def _list(self, value: Any, column: str, where: str) -> list[Any]:
        """Return a cell as a list, its text parsed or split at `separator`; [] if it is empty."""
        if _empty(value):
            return []
        if isinstance(value, str):
            found = list_in_text(value) if value.lstrip().startswith("[") else None
            if found is None and self.separator is not None:
                found = [part.strip() for part in value.split(self.separator)]
            if found is None:
                parted = "" if self.separator else "; `separator` says what parts a text of several"
                raise AdapterError(f"{where}: {column}: expected a list, or one as JSON or Python text, got {value!r:.60}{parted}")
            value = found
        if not isinstance(value, list | tuple):
            raise AdapterError(f"{where}: {column}: expected a list, got {value!r:.60}")
        return list(value)

    def _right(self, answers: list[str], choices: tuple[str, ...], where: str) -> int:
        if len(answers) != 1:
            raise AdapterError(f"{where}: {self.answer}: expected one right option, got {len(answers)}")
        answer = answers[0].strip()
        letters = LETTERS[: len(choices)]
        if self.answer_is == "letter":
            if len(answer) == 1 and answer.upper() in letters:
                return letters.index(answer.upper())
        elif self.answer_is == "text":
            same = [i for i, choice in enumerate(choices) if choice.strip() == answer]
            if len(same) == 1:
                return same[0]
            letters = " | ".join(choices)
        else:
            first = int(self.answer_is == "index_from_1")
            places = [str(i + first) for i in range(len(choices))]
            if answer in places:
                return places.index(answer)
            letters = f"{first} to {len(choices) - 1 + first}"
        expected = f"expected one of {letters:.200} (answer_is: {self.answer_is})"
        raise AdapterError(f"{where}: {self.answer}: {expected}, got {answer!r:.60}")


def files_by_split(source: Path, files: Mapping[str, str]) -> Iterator[tuple[str, str, Path]]:
    """Yield (split, prefix for sample ids, file) by split; AdapterError if no file fits."""
    for split, pattern in files.items():
        if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts or not pattern:
            raise AdapterError(f"files: {split}: expected a path or pattern inside the source, got {pattern!r}")
        try:
            paths = [p for p in sorted(source.glob(pattern)) if p.is_file() and lies_in(source, p)]
        except ValueError as error:
            raise AdapterError(f"files: {split}: expected a path or pattern inside the source, got {pattern!r}: {error}") from error
        if not paths:
            there = sorted(p.relative_to(source).as_posix() for p in source.glob("*"))[:20]
            raise AdapterError(f"{source}: files: {split}: no file fits '{pattern}'; there are: {', '.join(there) or 'none'}")
        for path in paths:
            yield split, f"{split}_" if len(files) > 1 else "", path


def image_path(images: str, split: str, name: str) -> str:
    """Return an image's path in the source: folder `images`, `{split}` filled in, and `name`."""
    return (PurePosixPath(images.replace("{split}", split)) / name).as_posix()


def picture_prefix(images: str, prefix: str) -> str:
    """Return the prefix of image ids: `prefix` if `images` contains `{split}`, else ""."""
    return prefix if "{split}" in images else ""


def _empty(value: Any) -> bool:
    return value is None or value == "" or value != value


def _plain(value: Any) -> str:
    """Return a cell as text: true/false, whole floats without `.0`, lists and dicts as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_PLAIN:
        return str(int(Decimal(repr(value))))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _text(value: Any, column: str | None, where: str) -> str:
    if isinstance(value, dict) and value:
        raise AdapterError(
            f"{where}: {column}: a record of {', '.join(map(str, value))}; name one of them, as {column}.{next(iter(value))}"
        )
    if isinstance(value, list | dict | tuple | bytes) or _empty(value) or not str(value).strip():
        raise AdapterError(f"{where}: {column}: expected a text or a number, got {value!r:.60}")
    text = _plain(value)
    if len(text) > MAX_TEXT:
        raise AdapterError(f"{where}: {column}: a text of {len(text):,} characters; at most {MAX_TEXT:,} are read. Is it another column?")
    return text


def _short(value: Any, column: str | None, where: str) -> str:
    text = _text(value, column, where)
    if len(text) > 1000 or not text.isprintable():
        raise AdapterError(f"{where}: {column}: expected a name of at most 1,000 characters on one line, got {text!r:.60}")
    return text


def _truth(value: Any, column: str | None, where: str) -> bool:
    truth = TRUTH.get(_plain(value).strip().lower())
    if truth is None:
        raise AdapterError(f"{where}: {column}: expected true or false, 1 or 0, yes or no, got {value!r:.60}")
    return truth


def _digest(*what: str | None) -> str:
    return hashlib.sha256("\0".join(w or "" for w in what).encode()).hexdigest()[:16]
