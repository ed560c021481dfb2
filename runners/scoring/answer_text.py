"""Words as judges compare them: without case, punctuation, articles and the difference between "two" and "2"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_UNITS = _BELOW_TWENTY.split()
_BY_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: str(10 * n) for n, word in enumerate(_BY_TENS.split(), 2)}
NUMBERS = {word: str(number) for number, word in enumerate(_UNITS)} | _TENS | {"none": "0"}
ARTICLES = {"a", "an", "the"}


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def normalise(text: str) -> str:
    """An answer without case, punctuation, articles and the difference between "two" and "2".

    >>> normalise("The Two red-ish cubes.")
    '2 red ish cubes'
    >>> normalise("1,000"), normalise("3.50"), normalise("A"), normalise("twenty-one")
    ('1000', '3.50', 'a', '21')
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("'", "")
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain)
    plain = re.sub(r"\.(?!\d)|(?<!\d)\.", "", plain)
    words = re.sub(r"[^\w.\s]|_", " ", plain).split()
    return " ".join(in_digits([w for w in words if w not in ARTICLES] or words))


def in_digits(words: Sequence[str]) -> list[str]:
    """Number words below a hundred in digits, "twenty one" as one of them.

    >>> in_digits(["twenty", "one", "or", "two"])
    ['21', 'or', '2']
    """
    digits: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        number = NUMBERS.get(word, word)
        if before in _TENS and word in _UNITS[1:10]:
            digits[-1] = str(int(_TENS[before]) + int(number))
        else:
            digits.append(number)
    return digits
