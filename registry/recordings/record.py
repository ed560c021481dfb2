"""Row of a recording, helpers that its readers share, and their errors."""

import hashlib
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qualm.registry import LETTERS
from qualm.registry.formats.plausible import (
    ImplausibleReason,
    at_least_zero,
    check_lengths,
    finite_number,
    log_probabilities,
    option_logits,
    probability,
    top_log_probabilities,
    top_token_texts,
)
from qualm.registry.text import list_in_text

MAX_DRAWS = 2**15
_SHORT = reprlib.Repr()
ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of reading a malformed row; they become a fault of that row."""
BLIND = "blind-"
"""Prefix of ids that reveal nothing about their sample."""


def blind_id(sample_id: str) -> str:
    """Return a digest as id, which reveals nothing of the sample.

    >>> blind_id("scene-3-u")
    'blind-4e8b7de5a7278e39'
    """
    return BLIND + hashlib.sha256(f"questionnaire\n{sample_id}".encode()).hexdigest()[:16]


class RecordingError(Exception):
    """Error of an unreadable recording: file, expected, found, remedy."""


@dataclass(slots=True)
class Record:
    """One row of a recording: a question, as far as known, with a model's answers."""

    where: str
    id: str
    question: str = ""
    prompt: str = ""
    """Text sent to the model, if it is more than the question."""
    choices: tuple[str, ...] = ()
    answer_index: int | None = None
    doubt: str = ""
    """Why `answer_index` cannot be known, where there are options; that is for those to mind who take questions from here."""
    references: tuple[str, ...] = ()
    category: str = ""
    split: str = ""
    meta: dict[str, str] = field(default_factory=dict)
    images: tuple[bytes, ...] = ()
    """The images that lie in the log, in order."""
    n_pictures: int | None = None
    """Number of images shown to the model, if the log tells."""
    lacking: str = ""
    """Why an image that the model was shown is not among `images`."""
    draws: list[dict[str, Any]] = field(default_factory=list)
    """Columns of GENERATIONS, an answer each; empty where the row is a question only."""
    draw: int = 0
    """Number of the first of them."""
    impossible: list[str] = field(default_factory=list)
    """Numbers of the answers that cannot be, and are undefined here: which, and why."""

    def texts(self) -> Iterator[str]:
        yield from (self.id, self.question, self.prompt, self.category, self.split, *self.choices, *self.references)
        yield from (text for pair in self.meta.items() for text in pair)
        yield from (value for draw in self.draws for value in draw.values() if isinstance(value, str))


@dataclass(frozen=True)
class ReadOptions:
    """Options by which a recording is read: field names, run, task, filter."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Our word -> the recording's field: id, question, choices, target, category."""
    filter: str | None = None
    """Whose answers are taken where the format has several readings of one; None = as the model gave them."""
    run: str | None = None
    """Whose answers are taken where a file has those of several models; None = it has one's, "" = whichever comes first."""
    task: str | None = None
    """Whose questions are taken where a file has those of several tasks; None = it has one's."""
    answer_is: str = "auto"
    """Form of a reference answer to a question with options: a letter, an option's text, or (auto) whichever fits."""


def texts(value: Any) -> tuple[str, ...]:
    """Return a target as texts: items of a list (or list as text), else [text]; () for None."""
    if isinstance(value, str):
        items = list_in_text(value) if value[:1] == "[" and value[-1:] == "]" and len(value) <= 100_000 else None
        return tuple(map(str, items)) if items and all(isinstance(v, str | int | float) for v in items) else (value,)
    if isinstance(value, list | tuple):
        return tuple(str(v) for v in value if v is not None)
    return () if value is None else (str(value),)


def letter_index(value: str, n: int) -> int | None:
    """Return the index of a letter ("B", "(B)", "B.") among n options; else None."""
    bare = value.strip().strip("().").upper()
    return LETTERS.index(bare) if len(bare) == 1 and bare in LETTERS[:n] else None


def excerpt(value: Any) -> str:
    """Return a value's `repr`, shortened, for a message."""
    return _SHORT.repr(value)


def short_fields(values: Mapping[str, Any], but: Iterable[str] = ()) -> dict[str, str]:
    """Return {field: text} of texts and numbers of 1 to 80 characters, not in `but`."""
    left = set(but)
    scalars = {k: v for k, v in values.items() if k not in left and isinstance(v, str | int | float) and v == v}
    return {str(k): str(v) for k, v in scalars.items() if 0 < len(str(v)) <= 80}


PER_TOKEN = ("token_logprobs", "token_entropies", "logprobs_without_image", "logprobs_without_question", "logprobs_without_both")
CHECKS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys((PER_TOKEN[0], *PER_TOKEN[2:]), log_probabilities),
    **dict.fromkeys(("token_entropies", "image_divergence", "uniform_divergence"), at_least_zero),
    **dict.fromkeys(("p_true", "p_true_sampling", "p_yes"), probability),
    "option_logits": option_logits,
    "top_logprobs": top_log_probabilities,
    "top_tokens": top_token_texts,
    "verdict": finite_number,  # points on any scale: one row cannot tell which
}
"""Column of GENERATIONS -> what it must be."""


def drop_impossible(answer: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return (columns without impossible values, reasons for what was dropped).

    >>> drop_impossible({"text": "a", "token_logprobs": [5.0], "p_yes": 0.5})
    ({'text': 'a', 'p_yes': 0.5}, ['token_logprobs: a log-probability above 0: 5.0'])
    """
    possible, reasons = {}, []
    for name, value in answer.items():
        checked = CHECKS[name](value) if name in CHECKS and value is not None else value
        if isinstance(checked, ImplausibleReason):
            reasons.append(f"{name}: {checked}")
        else:
            possible[name] = checked
    per_token = {name: possible[name] for name in PER_TOKEN if possible.get(name) is not None}
    if (disagree := check_lengths(per_token)) is not None:
        reasons.append(disagree)
        possible = {name: value for name, value in possible.items() if name not in per_token}
    return possible, reasons


VERDICTS = ("exact_match", "acc", "accuracy", "correct", "is_correct", "hit", "em", "score")
"""Keys of the tools' own verdicts, most reliable first; also behind a task's name, as `mmmu_acc`."""
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades: correct, partial, incorrect, no answer."""


def verdict(values: Any, names: Iterable[str] = VERDICTS) -> dict[str, float]:
    """Return {"verdict": number} of the first key that is or ends in one of `names`; else {}.

    A metric may hold its number in an object, as lmms-eval's do: `{"mme_score": {"score": 1.0, ...}}`.

    >>> verdict({"exact_match": 1.0, "bleu": 0.3}), verdict({"acc_norm": 1.0}), verdict({"mme_score": {"score": True}}), verdict(None)
    ({'verdict': 1.0}, {}, {'verdict': 1.0}, {})
    """
    if not isinstance(values, Mapping):
        return {}
    for name in names:
        for key, value in values.items():
            if key == name or str(key).endswith(f"_{name}"):
                found = verdict(value, names) if isinstance(value, Mapping) else graded(value)
                if found:
                    return found
    return {}


def graded(value: Any) -> dict[str, float]:
    """Return {"verdict": number} of a number, "true", "false" or grade C, P, I, N; else {}.

    >>> graded(True), graded("0"), graded("C"), graded("12 cats"), graded(10**400)
    ({'verdict': 1.0}, {'verdict': 0.0}, {'verdict': 1.0}, {}, {})
    """
    if isinstance(value, str):
        text = value.strip()
        if text in GRADES:
            return {"verdict": GRADES[text]}
        value = {"true": True, "false": False}.get(text.casefold(), text)
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return {}
    return {"verdict": number} if math.isfinite(number) else {}
