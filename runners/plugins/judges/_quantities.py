"""Read numbers in text as quantities: sign, decimals, thousands, fractions, percent, currencies, units, words and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from qualm.runners.scoring.answer_text import NUMBERS, SCALES, numbers_to_digits, unify_characters, word_set

_LATEX = (
    (re.compile(r"(?<![\w$])\$(?=\S)([^$\n]*[^\s$])\$(?!\d)"), r"\1"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\\[dt]?frac\s*(\d)\s*(\d)"), r" \1\3/\2\4"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname|mathit|mbox)\s*\{([^{}]*)\}"), r" \1"),
    (re.compile(r"\{,\}|(?<=\d)\\[,!](?=\s*\d{3})\s*"), ","),
    (re.compile(r"\\(?:times|cdot)(?![a-zA-Z])"), "×"),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-zA-Z])"), "°"),
    (re.compile(r"\\(?:left|right|big|Big|displaystyle|quad|qquad)(?![a-zA-Z])|\\[()\[\],;:! ]|\$\$"), " "),
    (re.compile(r"\\([$%#&€£])"), r"\1"),
    (re.compile(r"\b(?:square|sq\.?)\s+([^\W\d_]+)", re.IGNORECASE), r"\1^2"),
    (re.compile(r"\b(?:minus|negative)\s+(?=[\d.$€£])", re.IGNORECASE), "-"),
    (re.compile(r"\b(\d{1,2})\s?o['’]?clock\b", re.IGNORECASE), r"\1:00"),
    (re.compile(r"\bhalf an? dozen\b", re.IGNORECASE), "6"),
    (re.compile(r"\ban? (?=dozen\b)", re.IGNORECASE), "1 "),
)
_PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_FRACTION = re.compile(
    rf"\b(?:(?P<whole>\d+) and an? |(?P<above>\d+)[ -])(?P<below>{'|'.join(_PARTS)})s?\b"
    rf"|(?:\ban? |\A\W*)(?P<part>{'|'.join(_PARTS)})\b(?=\s*(?:of\b|[^\w\s]|\Z))",
    re.IGNORECASE,
)
"""A fraction in words: "3 quarters", "1 and a half", "a third of"."""
_CURRENCIES = {"$": "dollar", "us$": "dollar", "usd": "dollar", "€": "euro", "eur": "euro", "£": "pound", "gbp": "pound"} | {
    "¥": "yen", "jpy": "yen", "₹": "rupee", "rs": "rupee", "inr": "rupee", "₩": "won", "¢": "cent"
}  # fmt: skip
_CURRENCY = "|".join(re.escape(name) + (r"\b" if name.isalpha() else "") for name in sorted(_CURRENCIES, key=len, reverse=True))
UNITS = {
    name: (dimension, Fraction(factor))
    for dimension, names in {
        "percent": {"% percent pct percentage": "1"},
        "length": {
            "mm millimeter millimetre": "1/1000", "cm centimeter centimetre": "1/100", "m meter metre": "1",
            "km kilometer kilometre": "1000",
            'in inch inches "': "127/5000", "ft foot feet '": "381/1250", "yd yard": "1143/1250", "mi mile": "201168/125",
        },
        "mass": {
            "mg milligram": "1/1000", "g gram": "1", "kg kilogram kilo": "1000", "lb lbs pound": "45359237/100000",
            "t ton tonne": "1000000",
        },
        "time": {
            "ms millisecond": "1/1000", "s sec second": "1", "min minute": "60", "h hr hour": "3600", "day": "86400", "week": "604800",
            "month": "2629800", "y yr year": "31557600",
        },
        "volume": {"ml milliliter millilitre": "1/1000", "l liter litre": "1"},
        "angle": {"° degree deg": "1"},
        "celsius": {"°c celsius": "1"},
        "fahrenheit": {"°f fahrenheit": "1"},
        "cent": {"cent ¢": "1"},
        "dollar": {"dollar buck": "1"},
        "euro": {"euro": "1"},
        "yen": {"yen": "1"},
        "rupee": {"rupee": "1"},
    }.items()
    for row, factor in names.items()
    for name in row.split()
}  # fmt: skip
_SHORT_SCALES = {"k": 10**3, "mn": 10**6, "bn": 10**9, "tn": 10**12, "m": 10**6, "b": 10**9, "lakh": 10**5, "crore": 10**7, "dozen": 12}
_DIGITS = r"\d{1,3}(?:[ \u00a0\u202f\u2009]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*|(?<![\d.])\.\d+"
_NUMBER = re.compile(
    rf"(?<![^\W\d_\u3040-\u9fff\uac00-\ud7af])(?<![\d.,:/^_)])(?P<sign>(?<![\w)\]%])[-+]\s?|±\s?)?(?P<currency>(?:{_CURRENCY})\s?)?(?P<sign2>-)?(?P<digits>{_DIGITS})"
    r"(?:\^\{?(?P<raised>-?\d{1,4})\}?)?"
    r"(?:\s?[×x*]\s?10\s?\^?\s?\{?(?P<power>(?<=[\^{])[-+]?\d{1,4})\}?|e(?P<exponent>[-+]?\d{1,4}))?"
    r"(?:(?:(?P<half> \d{1,99})?\s?/\s?(?P<below>\d{1,99}(?:\.\d{1,99})?))(?![\d/]))?"
    rf"(?P<scale>\s?(?:{'|'.join(SCALES)}|lakh|crore|dozen|[mbt]n)\b|k\b|(?(currency)[mb]\b|(?!)))?"
    r"(?P<unit>\s?(?:°\s?[cf]?\b|°|%|[\"'](?![\w])|[-\s]?[^\W\d_]+(?:\^\d)?))?",
    re.IGNORECASE,
)
_NAMES = "|".join(sorted((*NUMBERS, *SCALES), key=len, reverse=True))
_IN_WORDS = re.compile(
    rf"(?<!\d )(?<!\d)\b(?:an?\s+(?=hundred|thousand|million|billion|trillion))?(?:{_NAMES})(?:(?:-|\s+(?:and\s+)?)(?:{_NAMES}))*\b",
    re.IGNORECASE,
)
_IN_CHINESE = re.compile(r"(?<![一二三四五六七八九十百千万第])[一二两三四五六七八九十](?=[个個只隻位名条張张匹辆輛头頭人])")
_PRONOUN_BEFORE = re.compile(
    r"\b(?:the|this|that|no|any|every|each|which|some|other|another|first|last|next|right|left|the only)\s*\Z", re.IGNORECASE
)
MAX_EXPONENT = 99
"""A number with a larger exponent is not read; it is compared as text."""
MAX_DIGITS = 300
"""A longer run of digits is a model that repeats itself, and no number."""
_JOINED = re.compile(r":\d|-\d")
_NO_UNITS = word_set("a an and or in on at of to is are was were with by for from as than the x times")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text: its exact value, unit, decimals as written, and position."""

    value: Fraction
    decimals: int
    """Digits behind the decimal point as it is written."""
    unit: str
    """Unit or currency by its usual name, the next word otherwise, in lower case; empty if none follows."""
    start: int
    end: int
    """End of its digits, without the unit, in the text that `plain_math` returns."""
    is_fraction: bool = False
    """Written as a fraction, so that its decimals are no precision."""


def plain_math(text: str) -> str:
    r"""Return a text with LaTeX as plain characters and number words as digits.

    >>> plain_math(r"$\frac{1}{2}$ of 1{,}000 or twenty-one"), plain_math("one of the dogs")
    ('1/2 of 1,000 or 21', 'one of the dogs')
    """
    text = unify_characters(text)
    text = _IN_WORDS.sub(lambda match: _digits_of(match, text), text)
    text = _IN_CHINESE.sub(lambda match: str("一二三四五六七八九十".find(match[0].replace("两", "二")) + 1), text)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    text = _FRACTION.sub(_fraction, text)
    return re.sub(" {2,}", " ", text).strip(" ")


def _fraction(words: re.Match[str]) -> str:
    return f"{words['whole'] or ''} {words['above'] or 1}/{_PARTS[(words['below'] or words['part']).casefold()]}".strip()


def _digits_of(words: re.Match[str], text: str) -> str:
    """Return number words as digits, but "none" and a pronoun "one" unchanged."""
    said = words[0].casefold()
    if said == "none" or (
        said == "one"
        and (re.match(r"\s+of\b|['’]", text[words.end() :]) or _PRONOUN_BEFORE.search(text[max(words.start() - 12, 0) : words.start()]))
    ):
        return words[0]
    digits = numbers_to_digits([w for w in re.split(r"[-\s]+", said) if w not in ("a", "an")])
    return " ".join(digits)


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a text from `plain_math`, but no times, ranges, dates or "<5"."""
    for match in _NUMBER.finditer(text):
        first, last = match.span("digits")
        if _JOINED.match(text, last) or re.fullmatch(r"\d-", text[max(first - 2, 0) : first]):
            continue  # a time, a range, a date
        if re.search(r"[<>≤≥]=?\s?\Z", text[max(match.start() - 3, 0) : match.start()]):
            continue  # "<5" is another answer than "5"
        if match["below"] and not Fraction(match["below"]):
            continue
        raised, power = int(match["raised"] or 1), int(match["power"] or match["exponent"] or 0)
        if max(abs(raised), abs(power)) > MAX_EXPONENT:
            continue
        for part, offset in _parts(match["digits"]):
            value, decimals = part
            value = (value**raised if value else value) * Fraction(10) ** power
            if match["below"]:
                part_of = Fraction(match["half"] or 0) / Fraction(match["below"])
                value = value + part_of if match["half"] else value / Fraction(match["below"])
            negative = (match["sign"] or "").startswith("-") or match["sign2"] is not None
            value = -value if negative and not offset else value
            scale = (match["scale"] or "").strip().casefold()
            value *= SCALES.get(scale) or _SHORT_SCALES.get(scale, 1)
            start = match.start("digits") + offset if offset else match.start()
            unit = unit_of((match["currency"] or "").strip() or match["unit"] or "")
            yield Quantity(value, decimals, unit, start, match.end("digits"), bool(match["below"]))


def _parts(digits: str) -> Iterator[tuple[tuple[Fraction, int], int]]:
    """Yield ((value, decimals), offset) per number in digits and separators; none if too long."""
    plain = re.sub(r"[\s'’]", "", digits)
    if len(plain) > MAX_DIGITS:
        return
    if re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?|0(?:,000)+", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(?:(?:\.\d{3}){2,}(?:,\d+)?|\.\d{3},\d+)", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d+,\d+", plain):
        plain = plain.replace(",", ".")
    if re.fullmatch(r"\d*\.?\d+", plain):
        yield (Fraction(plain), len(plain.partition(".")[2])), 0
    elif re.fullmatch(r"\d+(?:\.\d+)?(?:,\d+(?:\.\d+)?)+", plain):
        for match in re.finditer(r"[^,]+", plain):
            yield (Fraction(match[0]), len(match[0].partition(".")[2])), match.start()


def unit_of(text: str) -> str:
    """Return the usual name of a unit or currency; other nouns as they are, "" for "and" etc.

    >>> unit_of(" Kilometres"), unit_of("USD"), unit_of("dogs"), unit_of("and")
    ('km', 'dollar', 'dogs', '')
    """
    word, _, power = re.sub(r"\s+", "", text.casefold()).strip("-").partition("^")
    if power:
        return f"{unit_of(word)}^{power}"
    if word in _CURRENCIES:
        return _CURRENCIES[word]
    for name in (word, word.removesuffix("s"), word.removesuffix("es")):
        if name in UNITS:
            dimension, factor = UNITS[name]
            return next(n for n, of in UNITS.items() if of == (dimension, factor))
    return "" if word in _NO_UNITS else word


def read_quantity(text: str) -> Quantity | None:
    """Return a text's number if it adds at most a unit, "about" or "in total", else None.

    >>> read_quantity("$1,000.50").value, read_quantity("5 or 6"), read_quantity("about 5 km").unit
    (Fraction(2001, 2), None, 'km')
    """
    text = re.sub(
        r"^\W*(?:about|approximately|approx\.?|around|roughly|circa|exactly|≈|~|=)\s*|[\s.!*]+$", "", plain_math(text), flags=re.IGNORECASE
    )
    is_tuple = "," in text and text.lstrip("*$ ").startswith(("(", "["))
    text = text.strip("*_`\"“”'() \n") if not re.search(r"\d['\"]$", text) else text.strip("*_` \n")
    found = list(quantities(text))
    if len(found) != 1 or is_tuple:
        return None
    (quantity,) = found
    match = _NUMBER.match(text, quantity.start)
    rest = text[: quantity.start] + (text[match.end() :] if match else "")
    is_alone = re.fullmatch(
        r"[\s.]*(?:(?:u\.?s\.?|old|long|tall|high|wide|deep|away|ago|of age|in total|total)[\s.]*)*", rest, re.IGNORECASE
    )
    return quantity if is_alone else None


def equal(reference: Quantity, answer: Quantity, tolerance: float = 0.0, rounded: bool = False) -> bool:
    """Return true if two quantities have equal values, units converted (or one left out).

    A unit may be left out. "50%" equals "0.5". A fraction such as 1/3 equals a decimal of two or more digits to which it rounds.

    Args:
        reference: the right one.
        answer: the other one.
        tolerance: largest difference that counts as equal, relative to the reference.
        rounded: round the answer to the decimals of the reference first.
    """
    pairs = [(reference.value, answer.value)]
    percent = [q.unit == "%" for q in (reference, answer)]
    if percent[0] != percent[1]:
        pairs.append((reference.value / (100 if percent[0] else 1), answer.value / (100 if percent[1] else 1)))
    elif reference.unit and answer.unit and reference.unit != answer.unit:
        units = [UNITS.get(q.unit, (q.unit, Fraction(1))) for q in (reference, answer)]
        if units[0][0] != units[1][0]:
            return False
        pairs = [(reference.value * units[0][1], answer.value * units[1][1])]
    if percent[0] != percent[1] and all((reference.unit, answer.unit)):
        return False
    return any(_equal(a, b, reference, answer, tolerance, rounded) for a, b in pairs)


def _equal(right: Fraction, said: Fraction, reference: Quantity, answer: Quantity, tolerance: float, rounded: bool) -> bool:
    if abs(right - said) <= abs(right) * Fraction(tolerance):
        return True
    if reference.is_fraction != answer.is_fraction:
        decimals = max(reference.decimals, answer.decimals)
        return decimals >= 2 and _round(right, decimals) == _round(said, decimals)
    return rounded and _round(said, reference.decimals) == right


def _round(value: Fraction, decimals: int) -> Fraction:
    return Fraction(floor(value * 10**decimals + Fraction(1, 2)), 10**decimals)
