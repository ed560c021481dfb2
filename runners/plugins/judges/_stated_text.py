"""Read whether a reply in sentences states a reference as its answer: not denied, not asked, not one of several alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from qualm.runners.plugins.judges._quantities import plain_math
from qualm.runners.plugins.judges._statements import after_correction, final_statement, sentences, visible_reply
from qualm.runners.scoring.answer_text import ARTICLES, word_set, words_of

_DENIALS = word_set(
    "not no never neither nor without cannot lacks lack lacking except excluding unlike hardly nicht kein keine keinen pas não nao "
    "nunca nie не нет 不 没 非 無 ない isnt arent wasnt werent dont doesnt didnt hasnt havent hadnt cant couldnt shouldnt wouldnt wont "
    "aint mustnt"
)
_DENIAL_PAIRS = {("rather", "than"), ("instead", "of"), ("opposed", "to"), ("absence", "of"), ("far", "from")}
_NO_DENIALS = {
    *(("not", word) for word in ("only", "just", "merely", "simply", "sure")),
    *(("no", word) for word in ("doubt", "question", "wonder", "less", "longer", "problem")),
    ("without", "doubt"), ("without", "question"), ("why", "not"), ("cannot", "help"), ("cant", "help"),
}  # fmt: skip
_BE = word_set("is are was were be looks seems appears would ist sont est es son")
_WRONG = word_set("wrong incorrect false impossible unlikely out excluded absent missing")
_OR = word_set("or oder ou или 或 または")
_VAGUE = word_set("so something similar more less otherwise whatever")
_LIKE = {("is", "like"), ("are", "like"), ("similar", "to")}
_COMPARED = word_set("compared versus vs followed mistaken confused resembles resembling")
_PLACES = word_set("under on in inside behind above below beneath")
_IF = word_set("if unless whether")
_EARLIER = re.compile(r"\b(?:at first|initially|at 1st|i thought|you (?:might|may) think)\b")
_BREAKS = word_set("but although though however whereas yet because while sondern mais pero aber")
_COMPARISON = re.compile(" ?([<>=≤≥≠]) ?")
NEAR = 6
"""Words before a mention, within its clause, among which a denial counts for it."""
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_MONTH = "|".join(f"{month}|{month[:3]}" for month in _MONTHS) + "|sept"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?(?!\d)"
_DATE = re.compile(
    rf"\b(?:{_DAY}(?: of)? ({_MONTH})\b\.?|({_MONTH})\b\.?(?: {_DAY}|(?=,? \d)))(?:,? (\d{{4}})\b)?"
    rf"|\b(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}})\b"
    r"|(?<![\w/.-])(\d{1,2})(?P<between>[/.-])(\d{1,2})(?P=between)(\d{4})(?![\w/-])",
    re.IGNORECASE,
)
SENTENCE = 40
"""Words of a sentence, on either side of a mention, that tell what it is said of."""
_KINDS = [
    word_set(row)
    for row in (
        "red orange yellow green blue purple violet pink brown black white gray grey beige tan gold silver maroon teal turquoise navy cyan "
        "magenta",
        "left right middle center centre", "top bottom", "up down", "north south east west", "front back behind", "above below under over",
        "inside outside",
        "monday tuesday wednesday thursday friday saturday sunday", "spring summer autumn fall winter",
        "morning afternoon evening night noon",
        "january february march april may june july august september october november december",
        "small medium large big tiny huge", "man woman boy girl", "male female", "sunny cloudy rainy snowy foggy", "true false",
        "square circle triangle rectangle oval round rectangular triangular circular",
        "wood wooden metal plastic glass stone brick leather",
    )
]  # fmt: skip
"""Words of which a question asks one, so that a reply with two of them has two readings."""
_FUNCTION_WORDS = word_set(
    "in on at of is are was were and or with by for from to as that which who it its the a an this there while but he she they has have"
)


@dataclass(frozen=True, slots=True)
class Word:
    """A normalised word of a text, with its sentence."""

    text: str
    ends_clause: bool
    is_joined: bool
    """Written together with the next one, as in "red/blue"."""
    sentence: int
    """Number of its sentence."""
    is_asked: bool
    """Its sentence is a question."""


@dataclass(frozen=True)
class StatedText:
    """The words of a reply, with the places at which references occur in it."""

    words: Sequence[Word]
    references: Sequence[Sequence[str]]
    question: Sequence[str]

    @cached_property
    def mentions(self) -> list[tuple[int, int]]:
        """Return (start, end) word indices of all mentions of references, but none inside another."""
        texts = [word.text for word in self.words]
        found = {(i, i + len(ref)) for ref in self.references for i in range(len(texts)) if ref and texts[i : i + len(ref)] == list(ref)}
        longest: list[tuple[int, int]] = []
        for start, end in sorted(found, key=lambda m: (m[0], -m[1])):
            if not longest or end > longest[-1][1]:
                longest.append((start, end))
        return longest

    @cached_property
    def starts(self) -> set[int]:
        return {start for start, _ in self.mentions}

    @cached_property
    def ends(self) -> set[int]:
        return {end for _, end in self.mentions}

    def text(self, i: int) -> str:
        """Return the word of index `i`; "" outside the text."""
        return self.words[i].text if 0 <= i < len(self.words) else ""

    def clause_before(self, start_word: int) -> list[str]:
        """Return up to NEAR words before a word, within its clause, the nearest first."""
        words: list[str] = []
        for i in range(start_word - 1, max(start_word - 1 - NEAR, -1), -1):
            if self.words[i].ends_clause or self.text(i) in _BREAKS:
                break
            words.append(self.text(i))
        return words

    def is_denied(self, start_word: int, end_word: int) -> bool:
        """Return true if a mention is denied ("not red") by words that the question lacks."""
        before = self.clause_before(start_word)
        following = [self.text(start_word), *before]
        if (self.text(start_word - 2), self.text(start_word - 1)) == ("anything", "but") or any(
            p in _DENIAL_PAIRS for p in zip(before[1:], before, strict=False)
        ):
            return True
        if sum(self._denies(word, behind) for word, behind in zip(before, following, strict=False)) % 2:
            return True
        if self.words[end_word - 1].ends_clause or (self.text(end_word) not in _BE and self.text(end_word) not in _DENIALS):
            return False
        return any(self.text(i) in _WRONG or self._denies(self.text(i), self.text(i + 1)) for i in range(end_word, end_word + 3))

    def _denies(self, word: str, behind: str) -> bool:
        return word in _DENIALS and (word, behind) not in _NO_DENIALS and not behind.isdigit() and word not in self.question

    def is_alternative(self, start_word: int, end_word: int) -> bool:
        """Return true if a mention is one of several ("red or blue"), unless all are references."""
        if (self.words[end_word - 1].is_joined and end_word not in self.starts) or (
            start_word and self.words[start_word - 1].is_joined and start_word not in self.ends
        ):
            return True
        for i in range(end_word, min(end_word + 4, len(self.words))):
            if self.text(i) in _OR:
                return self.text(i + 1) not in _VAGUE and not {i + 1, i + 2} & self.starts
            if self.text(i) in _FUNCTION_WORDS or (i == end_word and not self.words[end_word - 1].ends_clause):
                break
        return self.text(start_word - 1) in _OR and start_word - 1 not in self.ends

    def is_doubted(self, start_word: int) -> bool:
        """Return true if a mention is asked, supposed, compared with, or an earlier impression."""
        before = self.clause_before(start_word)
        compared = "than" in before[:2] or (self.text(start_word - 2), self.text(start_word - 1)) in _LIKE
        compared = compared or bool(_COMPARED & set(before)) or _is_beside_a_place(before)
        return compared or self.words[start_word].is_asked or bool(_IF & set(before)) or self.is_earlier_impression(start_word)

    def is_earlier_impression(self, start_word: int) -> bool:
        """Return true if a mention is an earlier impression: "at first it looked red"."""
        near = range(start_word, min(start_word + SENTENCE, len(self.words)))
        end = next((i for i in near if self.words[i].ends_clause), start_word)
        sentence = [w.text for w in self.words[max(start_word - SENTENCE, 0) : end + 1] if w.sentence == self.words[start_word].sentence]
        return bool(_EARLIER.search(" ".join(sentence))) and not _EARLIER.search(" ".join(self.question))


def _is_beside_a_place(words_before: Sequence[str]) -> bool:
    """Return true if words, nearest first, begin "next to", "near"..., and "on", "in"... follow."""
    beside = 2 if list(words_before[:2]) == ["to", "next"] else int(bool(words_before) and words_before[0] in ("beside", "near", "by"))
    return bool(beside) and bool(_PLACES & set(words_before[beside:]))


def rate_text(question: str, references: Sequence[Sequence[str]], reply: str) -> float | None:
    """Return 1 if the reply states a reference, 0 if it states none, None if ambiguous.

    What the reply announces ("the answer is ...") is read alone, as is what stands behind a correction.

    Args:
        question: what was asked.
        references: the words of each, from `words_of_reference`.
        reply: the reply as it came.
    """
    text = visible_reply(reply)
    if (stated := final_statement(text)) is not None:
        return _rate(stated, question, references)
    whole, corrected = _rate(text, question, references), after_correction(text)
    if corrected is None or whole == 0:
        return whole
    rating = _rate(corrected, question, references)
    if rating == 0 and not _text(corrected, references).mentions:
        return 0.0 if _kinds_of(references) & {k for k, kind in enumerate(_KINDS) if kind & set(words_of(corrected))} else None
    return rating


def _rate(part: str, question: str, references: Sequence[Sequence[str]]) -> float | None:
    text = _text(part, references, words_of(question))
    asserted = doubted = denied = False
    for start, end in text.mentions:
        is_denied = text.is_denied(start, end)
        is_doubted = not is_denied and (text.is_doubted(start) or text.is_alternative(start, end))
        asserted, doubted, denied = asserted or not (is_denied or is_doubted), doubted or is_doubted, denied or is_denied
    if not asserted:
        return None if doubted or _may_state_date(part, references) else 0.0
    return None if denied else _among_its_kind(text)


def _among_its_kind(text: StatedText) -> float | None:
    """Return 0 if only rivals (other colors) are stated, None if the reference is too, else 1."""
    right = {reference[-1] for reference in text.references if reference}
    kinds = [_KINDS[k] for k in _kinds_of(text.references)]
    echoed = set() if right & set(text.question) else set(text.question)
    inside = {i for start, end in text.mentions for i in range(start, end - 1)}
    places = [
        i
        for i, word in enumerate(text.words)
        if any(word.text in kind - echoed for kind in kinds)
        and not (i in inside or word.is_asked or text.is_denied(i, i + 1) or text.is_earlier_impression(i))
    ]
    asked = set(text.question) - _FUNCTION_WORDS
    of_asked = [i for i in places if text.text(i + 1) in asked and not text.words[i].ends_clause]
    alone = [i for i in places if text.words[i].ends_clause or text.text(i + 1) in _FUNCTION_WORDS | {""}]
    ratings = {text.text(i) in right for i in of_asked or alone or places}
    return None if len(ratings) > 1 else float(ratings != {False})


def _kinds_of(references: Sequence[Sequence[str]]) -> set[int]:
    """Return the indices in _KINDS of the word sets that contain a reference's last word."""
    return {k for k, kind in enumerate(_KINDS) for words in references if words and words[-1] in kind}


def _text(part: str, references: Sequence[Sequence[str]], question: Sequence[str] = ()) -> StatedText:
    words = [
        word
        for number, sentence in enumerate(sentences(part))
        for word in _words(sentence, number, sentence.rstrip("*_) ").endswith(("?", "？")))
    ]
    return StatedText(words, references, question)


def words_of_reference(reference: str) -> list[str]:
    """Return a reference's normalised words, dates year first, to search for in replies."""
    return words_of(_dates_by_year(reference))


def _dates_by_year(text: str) -> str:
    """Return a text with its dates rewritten year first: "1972 september 14"."""

    def by_year(match: re.Match[str]) -> str:
        readings = _readings_of_date(match)
        if len(readings) == 2:  # written alike they are equal, whatever their order
            return "/".join(part.lstrip("0") for part in re.split(r"[/.-]", match[0]))
        return readings.pop() if readings else match[0]

    return _DATE.sub(by_year, text)


def _readings_of_date(match: re.Match[str]) -> set[str]:
    """Return the dates, year first, that a match of _DATE can mean: two of "03/05/2020"."""
    day, month, month_first, day_second, year, *numeric = match.groups()
    iso_year, iso_month, iso_day, first, _, second, last_year = numeric
    if iso_year or last_year:
        orders = [(iso_year, iso_month, iso_day)] if iso_year else [(last_year, first, second), (last_year, second, first)]
        return {f"{y} {_MONTHS[int(m) - 1]} {int(d)}" for y, m, d in orders if 1 <= int(m) <= 12 and 1 <= int(d) <= 31}
    name = next(full for full in _MONTHS if full.startswith((month or month_first).casefold()[:3]))
    return {" ".join(part for part in (year, name, (day or day_second or "").removeprefix("0")) if part)}


def _may_state_date(text: str, references: Sequence[Sequence[str]]) -> bool:
    """Return whether a text's only date equals a reference in one of two orders, as 03/05/2020."""
    stated = [_readings_of_date(match) for match in _DATE.finditer(text)]
    if len(stated) != 1 or re.search(r"\bnot\b|n't\b", text):
        return False
    for reference in map(" ".join, references):
        match = _DATE.fullmatch(reference)
        expected = _readings_of_date(match) if match else {reference}
        if stated[0] & expected and len(stated[0] | expected) > 1:
            return True
    return False


def _words(sentence: str, sentence_index: int, is_asked: bool) -> Iterator[Word]:
    """Yield the normalised words of a sentence without articles, to search references in."""
    raws = re.sub(
        r"(?<=[^\W\d_])([,;:、。])(?=[^\W\d_])", r"\1 ", _COMPARISON.sub(r"\1", " ".join(_dates_by_year(plain_math(sentence)).split()))
    ).split()
    for k, raw in enumerate(raws):
        parts = [word for word in words_of(raw) if word not in ARTICLES]
        ends = k == len(raws) - 1 or re.search(r"[,;:)\]，、；：。]\W*\Z|\A[-–—]+\Z", raw) is not None
        for i, part in enumerate(parts):
            last = i == len(parts) - 1
            yield Word(part, ends and last, not last and re.search(r"[^\W\d_]\s*/\s*[^\W\d_]", raw) is not None, sentence_index, is_asked)
