"""Normalise answers before they are compared: case, punctuation, articles and number words go, what distinguishes two answers stays."""

import re
import unicodedata
from collections.abc import Sequence

_BELOW_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_UNITS = _BELOW_TWENTY.split()
_BY_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: str(10 * n) for n, word in enumerate(_BY_TENS.split(), 2)}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
NUMBERS = {word: str(number) for number, word in enumerate(_UNITS)} | _TENS | {"none": "0"}
ARTICLES = {"a", "an", "the"}

_APOSTROPHES = str.maketrans("’‘ʼ´`“”″", "'''''\"\"\"")
_BREAK = re.compile(r"[\u2013-\u2015](?!\d)")
"""A dash between parts of a sentence; before a digit it is a sign or a range."""
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ]+")
_VULGAR_FRACTION = re.compile("[¼-¾⅐-⅞↉]")
_THOUSANDS = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3})(?![\d,]*\d)")
"""Commas between groups of three digits, or as India groups them."""
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufe00-\ufe0f\ufeff]")
_KEPT_MARKS = re.compile(
    r"(?<![^\W_])-(?=\.?\d)"  # a sign
    r"|(?<=\w)-(?=[\s.,;!?)]|\Z)"  # a grade, a charge: "A-"
    r"|(?<=\d)[-:/](?=\d)"  # a range, a time, a fraction
    r"|(?<=\d)\.(?=\d)|(?<![^\s\d(<>=+$€£¥-])\.(?=\d)"  # a decimal point
    r"|(?<=\w)#(?!\w)|(?<=\w)[*^](?=[\w(-])|%"
)
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3}|~~)(?=\S)([^*~\n]*?\S)\1(?![^\W_])")
_COMPARISON = re.compile(" ?([<>=≤≥≠]) ?")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def unify_characters(text: str) -> str:
    """Return the text in NFKC form, with quotes, dashes, powers and `!=` (as `≠`) unified.

    >>> unify_characters("10² ｃｍ"), unify_characters("1½"), unify_characters("x != 5")
    ('10^2 cm', '1 1/2', 'x ≠ 5')
    """
    for written, sign in (("!=", "≠"), ("<=", "≤"), (">=", "≥"), ("->", "→"), ("<-", "←")):
        text = text.replace(written, sign)
    if text.isascii():
        return text
    text = _VULGAR_FRACTION.sub(lambda match: " " + unicodedata.normalize("NFKC", match[0]), text).strip()
    text = _SUPERSCRIPT.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]), text)
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text.translate(_APOSTROPHES))).replace("⁄", "/")
    return _DASHES.sub("-", _BREAK.sub(" - ", "".join(str(unicodedata.digit(c)) if unicodedata.category(c) == "Nd" else c for c in text)))


def normalise(text: str) -> str:
    """Return an answer in lower case without punctuation and articles, number words as digits.

    Signs, decimal points, operators, currencies, emoji and combining marks stay. The result is empty for punctuation alone.

    >>> normalise("The Two red-ish cubes."), normalise("C++"), normalise("-5"), normalise("x < 10²")
    ('2 red ish cubes', 'c++', '-5', 'x<10^2')
    >>> normalise("1,000"), normalise("3.50"), normalise("A"), normalise("twenty-one")
    ('1000', '3.50', 'a', '21')
    """
    plain = unify_characters(text.translate(_APOSTROPHES).replace("''", '"')).casefold()
    plain = unicodedata.normalize("NFC", plain).replace("&", " and ")
    plain = _EMPHASIS.sub(r"\2", _THOUSANDS.sub(lambda match: match[0].replace(",", ""), plain))
    plain = re.sub(r"(?<=[^\W\d_])'(?=[^\W\d_])", "", plain)
    plain = re.sub(r"(?<=\d)\s+-\s+(?=\d)", "-", plain)
    kept = {match.start() for match in _KEPT_MARKS.finditer(plain)}
    kept |= {match.start() for mark in "'\"" if plain.count(mark) % 2 for match in re.finditer(rf"(?<=\d){mark}", plain)}
    plain = "".join(c if i in kept else _without_punctuation(c) for i, c in enumerate(plain))
    plain = re.sub(r"\$(?!\s?-?\.?\d)(?<!\d\$)(?<!\d \$)", " ", plain) if plain.strip() != "$" else plain
    words = _COMPARISON.sub(r"\1", " ".join(plain.split())).split()
    return " ".join(numbers_to_digits([w for w in words if w not in ARTICLES] or words))


def _without_punctuation(char: str) -> str:
    """Return " " for punctuation, "" for ".", " c " for signs such as ©, else `char`."""
    if char == ".":
        return ""
    category = unicodedata.category(char)
    if category == "So":
        return f" {char} "
    return " " if category[0] == "P" or char in "`~|" else char


def comparison_text(text: str) -> str:
    """Return the normalised text, or the text itself if it is punctuation alone.

    >>> comparison_text("Red."), comparison_text(" ? ")
    ('red', '?')
    """
    return normalise(text) or " ".join(text.split())


_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f])"
)
"""Thai, Lao, Burmese, Khmer, kana and Han, which are written without spaces."""


def words_of(text: str) -> list[str]:
    """Return the words of a text, normalised; of scripts without spaces, the characters.

    >>> words_of("The Two red cubes."), words_of("红色的车")
    (['2', 'red', 'cubes'], ['红', '色', '的', '车'])
    """
    return _UNSPACED.sub(r" \1 ", normalise(text)).split()


def numbers_to_digits(words: Sequence[str]) -> list[str]:
    """Return the words, each spelled number, maybe of several words, replaced by digits.

    >>> numbers_to_digits(["twenty", "one", "or", "two", "hundred", "and", "five"])
    ['21', 'or', '205']
    """
    digits: list[str] = []
    i = 0
    while i < len(words):
        value, end = _number_at(words, i)
        digits.append(words[i] if end == i else value)
        i = max(end, i + 1)
    return digits


def _number_at(words: Sequence[str], i: int) -> tuple[str, int]:
    """Return (digits of the number at word `i`, index after it); (the word, `i`) if none."""
    total, group, end, scale = 0, _below_hundred(words, i), i, 10**15
    if group is None and words[i] in SCALES:
        group = (1, i)  # "hundred", of "a hundred"
    while group is not None:
        value, after = group
        if value < 100 and _word(words, after) == "hundred":
            value, after = value * 100, after + 1
            more = _below_hundred(words, after + (_word(words, after) == "and"))
            if more and more[0] and _word(words, more[1]) != "hundred":
                value, after = value + more[0], more[1]
        factor = SCALES.get(_word(words, after), 1)
        if factor >= scale:  # "one million two million": another number begins here
            break
        total, end = total + value * factor, after + (factor > 1)
        if factor == 1:
            break
        scale = factor
        group = _below_hundred(words, end + (_word(words, end) == "and"))
        group = group if group and group[0] and _word(words, end) != "none" else None
    return str(total) if end > i + 1 or words[i] in SCALES else NUMBERS.get(words[i], words[i]), end


def _below_hundred(words: Sequence[str], i: int) -> tuple[int, int] | None:
    word = _word(words, i)
    if word not in NUMBERS:
        return None
    follows = _word(words, i + 1)
    if word in _TENS and follows in _UNITS[1:10]:
        return int(_TENS[word]) + int(NUMBERS[follows]), i + 2
    return int(NUMBERS[word]), i + 1


def _word(words: Sequence[str], i: int) -> str:
    return words[i] if i < len(words) else ""
