"""What a model was asked to write, without what models put around it: code fences, list marks, emphasis, quotes, and labels.

One reader for all text that generators make. Lost without it: a prompt whose examples say `Rewritten: ...` has some replies begin so, and
the word would go into the questions of a data set, where nobody looks for it.
"""

import re
from collections.abc import Collection
from functools import cache

_FENCE = re.compile(r"\A```(?:[\w+-]*[ \t]*\n|(?:json|text|markdown)[ \t]+)?(.*?)\n?[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"\A<([a-z]\w*)>(.*)</\1>\Z", re.DOTALL | re.IGNORECASE)
_MARK = re.compile(r"\A(?:[-*•>#]+\s+|\d{1,2}[.)]\s+)+")
_PAIRS = {'"': '"', "“": "”", "”": "”", "„": "“", "'": "'", "‘": "’", "`": "`", "«": "»", "「": "」"}
_EMPHASIS = ("***", "**", "__", "*", "_")
_OPENER = r"(?:(?:sure|certainly|of course|okay|ok|yes)\b[,.!]*\s*)?(?:(?:here(?:['’]s| is| you (?:are|go))|this is)\s*)?"
_TERM = (
    r"(?:questions?|rewritten|re-written|rewrite|rephrased|reworded|revised|modified|changed|altered|edited|transformed|new|invalid|"
    r"subjective|ambiguous|unanswerable|answerable|original|final|variant|version|output|result|response|reply|answer)"
)
_LABEL_IN_PROMPT = re.compile(r"^\W*([A-Za-z][\w-]*(?: [\w-]+){0,3})\**:", re.MULTILINE)


def unfenced(text: str) -> str:
    """A text without the code fence around all of it."""
    fence = _FENCE.match(text.strip())
    return (fence[1] if fence and "```" not in fence[1] else text).strip()


def lines(text: str) -> list[str]:
    """The lines of a reply that hold something, without a fence around them and marks of a list before them."""
    return [_MARK.sub("", line.strip()).strip() for line in unfenced(text).splitlines() if line.strip()]


def labels_in(prompt: str) -> frozenset[str]:
    """What stands before a colon at the beginning of a prompt's lines: a reply may echo it.

    >>> sorted(labels_in("Question: how many?\\nRewritten: how much?"))
    ['question', 'rewritten']
    """
    return frozenset(label.lower() for label in _LABEL_IN_PROMPT.findall(prompt))


def bare(text: str, labels: Collection[str] = ()) -> str:
    """A text without labels, quotes and emphasis around it.

    Args:
        text: a line of a reply.
        labels: words that the prompt has before colons, beside those that models use of themselves.

    >>> bare('**Rewritten question:** "Is it nice?"'), bare("Twist: is it?", ["twist"]), bare('Why is it called "it"?')
    ('Is it nice?', 'is it?', 'Why is it called "it"?')
    """
    label = _label(frozenset(labels))
    before = None
    while text != before:
        before = text
        text = label.sub("", _unwrapped(text), count=1).strip()
    return text


def is_doubtful(text: str, labels: Collection[str] = ()) -> bool:
    """Whether a bare text seems to be two, as in `Is it? Rewritten: is it nice?`, or begins with a quote that does not end."""
    opening, closing = text[:1], _PAIRS.get(text[:1], "")
    half = opening in set('"“„«') and (text.count('"') % 2 == 1 if opening == '"' else closing not in text)
    return (bool(opening) and half) or _label_within(frozenset(labels)).search(text) is not None


def _unwrapped(text: str) -> str:
    text = text.strip()
    if tagged := _TAG.match(text):
        return tagged[2].strip()
    for mark in _EMPHASIS:
        inner = text[len(mark) : -len(mark)]
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark) and mark[0] not in inner:
            return inner.strip()
    closing = _PAIRS.get(text[:1])
    if closing and len(text) > 1 and text.endswith(closing) and not {text[0], closing} & set(_without_apostrophes(text[1:-1])):
        return text[1:-1].strip()
    return text


def _without_apostrophes(text: str) -> str:
    return re.sub(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)", "", text)


@cache
def _label(labels: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"\A[#>*_\"\s]*{_either(labels)}[*_\"]*\s*(?:[:：]|\s(?:[-–—=]+>|[-–—])(?=\s))[*_]*\s*", re.IGNORECASE)


@cache
def _label_within(labels: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"[?.!\"”*)]\s+[#>*_]*{_either(labels)}[*_]*\s*[:：]", re.IGNORECASE)


def _either(labels: frozenset[str]) -> str:
    """A label of the prompt; or an opener, a few of the usual words, a number: `Sure! Here is the new question 1`."""
    own = [re.escape(label).replace(r"\ ", r"\s+") for label in sorted(labels, key=len, reverse=True)]
    usual = rf"{_OPENER}(?:(?:the|my|your|an?)\s+)?{_TERM}(?:\s+{_TERM}){{0,3}}(?:\s*\d\b|\s*\([^)]*\))?(?:\s+is)?"
    return f"(?:{'|'.join([*own, usual, r'(?:q|a)[ ]?[0-9]?'])})"
