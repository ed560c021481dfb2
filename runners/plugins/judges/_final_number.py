"""Read the number that a reply gives as its answer, and compare it with the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qualm.runners.plugins.judges._quantities import UNITS, Quantity, equal, plain_math, quantities, unit_of
from qualm.runners.plugins.judges._statements import after_correction, final_statement, sentences, visible_reply, without_code
from qualm.runners.scoring.answer_text import word_set

_DENIED = re.compile(
    r"(?:\b(?:not|never|isn't|wasn't|aren't|weren't|cannot be|can't be|instead of|rather than|no longer|neither|nor|nicht|pas)|[不没非]是?)"
    r"[ \t*]*(?:exactly |equal to |the |an? )?\Z",
    re.IGNORECASE,
)
_CALLED_WRONG = re.compile(r"\A[*\s]*(?:%\s*|[^\W\d_]+ )?(?:is|was|would be)(?:n't| not\b| wrong| incorrect| false)", re.IGNORECASE)
_BOUND = re.compile(
    r"(?:\b(?:at least|at most|above|below|over|under|exceeds|exceeding|no more than|between|up to|than))[ \t]*(?:the |an? )?\Z",
    re.IGNORECASE,
)
"""Words before a number that is a bound."""
_NAMED = re.compile(
    r"\b(?:out of|step|case|figure|table|option|part|page|rows?|columns?|stage|line|question|image|picture|store|day)[ \t]*#?\Z",
    re.IGNORECASE,
)
"""Words before a number that names a thing."""
_EQUALS = re.compile(r"\A(?:(?!\bor\b)[^=≈])*[=≈]")
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAY = re.compile(rf"\b(?:{_MONTHS})\s+\Z|\A(?:st|nd|rd|th)?\s+(?:{_MONTHS})\b", re.IGNORECASE)
_SO = re.compile(r"[,;]\s+(?=(?:so|therefore|thus|hence|for a total|in all)\b)", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"^\W*(?:therefore|thus|hence|so|in (?:total|all|conclusion|summary)|overall|altogether|finally|as a result|consequently"
    r"|for a total)\b",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"(?:^|\b(?:is|are|was|were|be|equals|to|about|approximately|around|exactly|gives?(?: us)?|gets?|got|totals?)|[:=])[\s*$]*\Z",
    re.IGNORECASE,
)
_OR_BEHIND = re.compile(
    r"\A[*\s]*(?:[^\W\d]+\s+)?(?:(?:or|to|/)[*\s]+(?:maybe |even |possibly |perhaps |[a-z]\s*=\s*)?|, ?(?:maybe|perhaps|possibly) )-?\d",
    re.IGNORECASE,
)
_OR_BEFORE = re.compile(
    r"(?:\d[*\s]*(?:[^\W\d]+\s+)?(?:or|to|/)|\bbetween [^.;\n]{1,40} and)[*\s]+(?:maybe |even |possibly |perhaps |[a-z]\s*=\s*)?\Z",
    re.IGNORECASE,
)
_FALLS = re.compile(r"\b(?:fell|falls?|fallen|decreas\w+|dropp?\w*|declin\w+|loss|lost|loses|down|reduc\w+|deficit|below)\b", re.IGNORECASE)
"""Words that make a number without a sign negative."""
_HOW_MANY = re.compile(r"\bhow many\b((?:\s+[a-z-]+){1,4})", re.IGNORECASE)
_NOT_COUNTED = word_set(
    "are is were was do does did can could have has there of in on the a an be will would different total more fewer these those"
)
_NONE = re.compile(
    r"^\W*(?:there (?:are|is|were|was) )?(?:none|no\s+[^\W\d]+)|\bthere (?:are|is|were|was) (?:none|no|not any)\b", re.IGNORECASE
)
YEARS = range(1000, 2200)
CONTEXT = 100
"""Characters around a number that are read."""


@dataclass(frozen=True, slots=True)
class NumberCandidate:
    """A number in a reply, with its sentence, that may be the answer."""

    quantity: Quantity
    sentence: str

    @property
    def before(self) -> str:
        """Return up to CONTEXT characters of the sentence before the number."""
        return self.sentence[max(self.quantity.start - CONTEXT, 0) : self.quantity.start]

    @property
    def behind(self) -> str:
        """Return up to CONTEXT characters of the sentence after the number."""
        return self.sentence[self.quantity.end : self.quantity.end + CONTEXT]

    @property
    def is_bold(self) -> bool:
        return self.sentence.count("**", 0, self.quantity.start) % 2 == 1

    @property
    def is_alternative(self) -> bool:
        """Return true if the number is one of several: "10 or 12", "5 to 10"."""
        return bool(_OR_BEHIND.search(self.behind) or _OR_BEFORE.search(self.before))


Step = Callable[[list[NumberCandidate]], list[NumberCandidate]]


def rate_number(question: str, references: Sequence[Quantity], reply: str, tolerance: float = 0.0, rounded: bool = False) -> float | None:
    """Return 1 if the final number is a reference, 0 if another or none, None if ambiguous.

    Every reading is tried in turn, from all numbers of the reply down to one, until all that are left are right or all are wrong. A
    reply without any number is wrong.
    """

    def is_right(candidate: NumberCandidate) -> bool | None:
        if not any(equal(reference, candidate.quantity, tolerance, rounded) for reference in references):
            opposite = replace(candidate.quantity, value=-candidate.quantity.value)
            is_fall = _FALLS.search(candidate.before + candidate.behind) and any(
                equal(r, opposite, tolerance, rounded) for r in references if r.value
            )
            return None if is_fall else False
        return None if _BOUND.search(candidate.before) or candidate.is_alternative else True

    text = visible_reply(reply)
    readings = _candidates(text)
    stated, corrected = final_statement(text), after_correction(text)
    asked_units = {unit for word in re.findall(r"[^\W\d_]+", question) if len(word) > 1 and (unit := unit_of(word)) in UNITS}
    steps: list[Step] = [
        *(lambda _, part=part: _candidates(part) for part in (stated, corrected if stated is None else None) if part is not None),
        lambda candidates: _candidates(without_code(text)) if stated is None else candidates,
        _without_bounds,
        lambda candidates: [c for c in candidates if all(c.quantity.value != q.value for q in quantities(plain_math(question)))],
        lambda candidates: [c for c in candidates if _may_answer(c.quantity, references)],
        lambda candidates: [c for c in candidates if c.quantity.unit in asked_units],
        lambda candidates: _in_last_sentence([c for c in candidates if _CONCLUDES.match(c.sentence)]),
        lambda candidates: [c for c in candidates if _is_counted(c, question)],
        lambda candidates: _in_last_sentence([c for c in candidates if c.is_bold]),
        lambda candidates: [c for c in candidates if c.sentence == candidates[0].sentence],
        lambda candidates: [c for c in candidates if not _EQUALS.search(c.behind)],
        lambda candidates: [c for c in candidates if c.is_alternative or _STATED.search(c.before)],
    ]
    for step in steps:
        if len({is_right(reading) for reading in readings}) < 2:
            break
        readings = step(readings) or readings
    ratings = {is_right(reading) for reading in readings}
    return None if len(ratings) > 1 or None in ratings else float(ratings == {True})


def _candidates(text: str) -> list[NumberCandidate]:
    """Return the numbers that a text does not deny; 0 for "none" or "no cars"."""
    parts = [plain_math(part) for sentence in sentences(text) for part in _SO.split(sentence)]
    candidates = [NumberCandidate(q, part) for part in parts for q in quantities(part)]
    if not candidates and (none := _NONE.search(text)):
        candidates = [NumberCandidate(Quantity(Fraction(0), 0, "", none.start(), none.end()), text)]
    return [c for c in candidates if not _DENIED.search(c.before) and not _CALLED_WRONG.search(c.behind)]


def _without_bounds(candidates: list[NumberCandidate]) -> list[NumberCandidate]:
    """Return those that are no bound ("more than 7"), name ("step 2"), date or list number."""
    candidates = [c for c in candidates if not _BOUND.search(c.before) and not _NAMED.search(c.before)]
    candidates = [c for c in candidates if c.quantity.value > 31 or not (_DAY.search(c.before) or _DAY.search(c.behind))]
    return [c for c in candidates if not (not c.before.strip("*- ") and re.match(r"[.)]\s+\S", c.behind))]


def _is_counted(candidate: NumberCandidate, question: str) -> bool:
    """Return true if what the question counts follows the number: "3 dogs"."""
    how_many = _HOW_MANY.search(question)
    nouns = {_singular(w) for w in how_many[1].casefold().split() if w not in _NOT_COUNTED} if how_many else set()
    return any(
        _singular(w) in nouns
        for w in re.findall(r"[^\W\d_]+", re.split(r"[,;:.()]|(?<!or )(?<!to )\d", candidate.behind.casefold())[0])[:3]
    )


def _singular(word: str) -> str:
    return word.removesuffix("s").removesuffix("e")


def _may_answer(quantity: Quantity, references: Sequence[Quantity]) -> bool:
    """Return true if a number is of a reference's kind; if all are plain, any but a year may.

    If all references are plain numbers, every number that is no year may answer.
    """
    kind, kinds = _kind(quantity), {_kind(reference) for reference in references}
    return kind in kinds or (kinds == {""} and kind != "year")


def _kind(quantity: Quantity) -> str:
    if quantity.value in YEARS and not quantity.decimals and quantity.unit not in UNITS:
        return "year"
    return UNITS[quantity.unit][0] if quantity.unit in UNITS else ""


def _in_last_sentence(candidates: list[NumberCandidate]) -> list[NumberCandidate]:
    return [c for c in candidates if c.sentence == candidates[-1].sentence]
