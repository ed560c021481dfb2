"""Find what a reply in sentences states as its answer: the final statement, what a correction replaces, sentences and their tone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qualm.runners.prompts.plain import clean_reply

MAX_CHARACTERS = 20_000
"""Characters of a reply that are read, from its end: where it comes to its answer."""
_CONTINUATION = re.compile(r"\n\s*(?:question|q|human|user|instruction|problem|input)\s*\d*\s*[:：]", re.IGNORECASE)
"""Start of a question that a base model adds itself."""
_TAGGED = re.compile(r"<(answer|final_answer)>\s*(.*?)\s*</\1>", re.DOTALL | re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_ANNOUNCED = re.compile(
    r"####[ \t]*(?P<hash>[^\n]+)|\bfinal answer\b\W*\n\s*(?P<next>[^\n]+)|\banswer\b(?:[ \t]+(?:to|for|"
    r"of)\b[^.:=\n]{0,100}?)?(?:[ \t]*[:：=][\s=]*|[ \t]+(?:is|was|would be|will be|should be|must be|comes to|"
    r"equals)\b[ \t]*[:：]?\s*)(?P<said>[^\n]+)"
    r"|(?:答案|答え|回答)\s*(?:是|为|為|は|[:：])+\s*(?P<han>[^\n]+)"
    r"|\b(?:respuesta|réponse|antwort|resposta|risposta)\b(?:[ \t]+(?:es|est|ist|é|è|correcta|lautet))*[ \t]*[:：]?[ \t]*(?P<latin>[^\n]+)",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"(?:\A|[.!?;,:…\n]|[-–—] ?)\s*(?:(?:oh|no|hmm+|but|ah|ok|okay|well|um|uh)[,.…!]*\s+)*(?:(?:wait|hold on|correction|scratch that|"
    r"on second thoughts?|i mean|i meant|my mistake|my bad|or rather|make that|sorry|no)\s*(?:[,.!:;…]|[-–—]\s|\Z)|(?:i mean|i meant|"
    r"or rather|make that)\b|(?:actually|wait|sorry)[,:]?\s+(?=no\b|it|that|this|the\b|there|i\b|upon|after|looking))"
    r"|\blet me (?:correct|re-?check|reconsider|re-?count|re-?phrase|try again|fix|double[- ]check|look again)\b[^.:!?\n]*[.:!?]?"
    r"|\bi (?:made an? (?:mistake|error)|misspoke|misread|was wrong|miscounted)\b[^.:!?\n]*[.:!?]?",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_]*\s+(?=[^a-z])|(?<=[。！？])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|vs|etc|e\.g|i\.e|approx|no|fig|jr|sr|prof|inc|u\.s|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
    r"|(?<!\d )\b[a-z])\.\Z",
    re.IGNORECASE,
)
"""Abbreviation whose full stop does not end a sentence; a single letter after a number is a unit ("3.5 m.")."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def visible_reply(reply: str) -> str:
    """Return a reply without thoughts and follow-ups; a LaTeX box is added as "Answer: ...".

    Only its last MAX_CHARACTERS characters are read. Chat tokens are dropped.
    """
    text = clean_reply(_boxes_as_statements(reply[-MAX_CHARACTERS:]))
    cut = _CONTINUATION.search(text.strip())
    return (text.strip()[: cut.start()] if cut and cut.start() else text).strip()


def _boxes_as_statements(text: str) -> str:
    r"""Return a text with its last LaTeX box unwrapped and repeated as a line "Answer: ..."."""
    for match in reversed(list(_BOX.finditer(text))):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not depth and (inside := text[match.end() : end - 1].strip()):
            return f"{text[: match.start()]}{inside}{text[end:]}\nAnswer: {inside}"
    return text


def final_statement(text: str) -> str | None:
    """Return the last answer that a visible reply announces; None if it announces none.

    >>> final_statement("2 + 3 = 5, so the answer is 5."), final_statement("#### 1,000"), final_statement("It is red.")
    ('5', '1,000', None)
    """
    if tagged := _TAGGED.findall(text):
        return str(tagged[-1][1])
    plain = re.sub(r"\*\*|__", "", text)
    said = None
    for match in _ANNOUNCED.finditer(plain):
        part = next(part for name in ("hash", "next", "said", "han", "latin") if (part := match[name]) is not None)
        said = sentences(part)[0].strip() if part.strip() else said
    return said.strip().rstrip(".") if said and re.search(r"\w", said) else None


def after_correction(text: str) -> str | None:
    """Return the text after the last correction ("no, wait"); None without one."""
    found = list(_CORRECTION.finditer(text))
    return text[found[-1].end() :] if found else None


def sentences(text: str) -> list[str]:
    r"""Return the sentences and lines of a text, at least one.

    >>> sentences("It is 3.5 m. Mr. X says so!\nYes")
    ['It is 3.5 m.', 'Mr. X says so!', 'Yes']
    """
    parts: list[str] = []
    for part in _SENTENCE_END.split(text):
        if parts and _ABBREVIATION.search(parts[-1]) and not parts[-1].endswith("\n"):
            parts[-1] += f" {part}"
        elif part and part.strip():
            parts.append(part.strip())
    return parts or [text]


def without_code(text: str) -> str:
    """Return a text without blocks of code and rows of tables."""
    lines: Sequence[str] = _CODE.sub("\n", text).splitlines()
    return "\n".join(line for line in lines if line.count("|") < 2 and not re.fullmatch(r"\s*[-|: ]+\|[-|: ]*", line) and " | " not in line)
