"""Records of releases whose files we have not seen, read by the usual names of fields.

Nothing else is guessed: if a needed field is missing, the message names the fields of the record, so that you can write a card of
`image_table`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.adapters import AdapterError
from qualm.registry.adapters._official import read_image
from qualm.registry.sample import Image

IDS = ("id", "uid", "sample_id", "question_id", "qid")
QUESTIONS = ("question", "query", "text")
TALKS = ("conversations", "conversation", "messages")
ANSWERS = ("answer", "answers", "reference", "references", "gt_answer", "ground_truth", "label_answer")
IMAGES = ("image", "image_path", "image_file", "image_name", "img", "image_id", "filename", "file_name")
ANSWERABLE = ("answerable", "is_answerable", "unanswerable", "is_unanswerable", "answerability")
CATEGORIES = ("category", "subcategory", "uncertainty_type", "question_type", "awareness", "type")
PAIRS = ("pair_id", "pair")
_MARK = re.compile(r"\s*<image>\s*")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class Unseen:
    """Record of a release whose field names are not known; fields are found by usual names."""

    record: Mapping[str, Any]
    where: str

    def field(self, names: Sequence[str]) -> str | None:
        """Return the record's key for the first of `names` with a value, in any case; else None."""
        own = {str(key).lower(): str(key) for key in self.record}
        return next((own[name] for name in names if name in own and self.record[own[name]] is not None), None)

    def text(self, names: Sequence[str]) -> str | None:
        """Return the first of `names` not null as text; None without; else AdapterError."""
        name = self.field(names)
        if name is None:
            return None
        value = self.record[name]
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            raise AdapterError(f"{self.where}: {name}: expected a text or number, got {value!r:.60}")
        return str(value).strip()

    def talk(self) -> tuple[str | None, tuple[str, ...]]:
        """Return (question or None, its answers), from fields or a conversation's first two turns."""
        question, answers = self.text(QUESTIONS), self._answers()
        name = self.field(TALKS)
        if question is None and name is not None:
            turns = self.record[name]
            if not isinstance(turns, list) or not turns or not all(isinstance(turn, Mapping) for turn in turns):
                raise AdapterError(f"{self.where}: {name}: expected a list of turns, got {turns!r:.60}")
            turn_texts = [str(turn.get("value", turn.get("content", ""))) for turn in turns]
            question, answers = turn_texts[0], answers or tuple(turn_texts[1:2])
        return (None if question is None else _MARK.sub(" ", question).strip() or None), answers

    def answerable(self) -> bool | None:
        """Return whether a question is labelled answerable; None if unlabelled; or AdapterError."""
        name = self.field(ANSWERABLE)
        if name is None:
            return None
        label = str(self.record[name]).strip().lower().removesuffix(".0")  # 0 and 1 beside nulls are read as floats
        truth = {"true": True, "1": True, "yes": True, "answerable": True, "false": False, "0": False, "no": False, "unanswerable": False}
        if label not in truth:
            raise AdapterError(f"{self.where}: {name}: expected true or false, got {self.record[name]!r:.60}")
        return not truth[label] if "un" in name.lower() and label not in ("answerable", "unanswerable") else truth[label]

    def extras(self, names: Sequence[str]) -> dict[str, str]:
        """Return {name: value as text} of those of `names` that the record has and are not null."""
        return {name: str(self.record[name]) for name in names if self.record.get(name) is not None}

    def unlike(self, expected: str) -> AdapterError:
        there = ", ".join(sorted(map(str, self.record))) or "none"
        return AdapterError(
            f"{self.where}: expected {expected}; fields that are there: {there}. This release was not seen when its reader was written: "
            "`qualm data new` writes a card of `image_table` that names them"
        )

    def _answers(self) -> tuple[str, ...]:
        name = self.field(ANSWERS)
        value = None if name is None else self.record[name]
        values = value if isinstance(value, list) else [] if value in (None, "") else [value]
        if not all(isinstance(v, str | int | float) and not isinstance(v, bool) for v in values):
            raise AdapterError(f"{self.where}: {name}: expected a text or a list of texts, got {value!r:.60}")
        return tuple(str(v).strip() for v in values if str(v).strip())


def wrap_record(record: Any, where: str) -> Unseen:
    """Return a record of a file as `Unseen`; raise AdapterError if it is not a dict."""
    if not isinstance(record, Mapping):
        raise AdapterError(f"{where}: expected an object, got {record!r:.60}")
    return Unseen(record, where)


def find_image(source: Path, name: str, image_id: str, where: str) -> Image:
    """Read image `name`, suffix optional, in the source or its `images/`; else AdapterError."""
    names = [name] if Path(name).suffix.lower() in _SUFFIXES else [name, *(f"{name}{suffix}" for suffix in _SUFFIXES)]
    return read_image(source, [place for n in names for place in (n, f"images/{n}")], image_id, where)
