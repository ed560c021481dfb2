"""Text of replies without decoration: code fences, list marks, emphasis, quotes, labels.

Without it, a label of the prompt such as `Rewritten:` that a reply repeats would enter the dataset's questions.
"""

import re
from collections.abc import Collection
from functools import cache

_FENCE = re.compile(r"\A(`{3}|~{3})(?:[\w+-]*[ \t]*\n|(?:json|text|markdown)[ \t]+)?(.*?)\n?[ \t]*\1\Z", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"\A<([a-z]\w*)(?:\s+\w+=[^<>]*)?>(.*)</\1>\Z", re.DOTALL | re.IGNORECASE)
_SIGN = r"[\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]\ufe0f?"
_MARK = re.compile(rf"\A(?:[-*•>#+–·‣◦▪●►▶]+\s+|\d{{1,2}}[.)]\s+|\d\ufe0f?\u20e3\s*|\[[ xX✓✔]?\]\s+|{_SIGN}\s*)+")
"""Mark of a list: bullet, number, check box, emoji."""
_PAIRS = {
    **{mark: mark for mark in "\"”’'`＂"},
    **{"“": "”", "„": "“”", "‘": "’", "‚": "‘’", "«": "»", "»": "«", "‹": "›", "›": "‹"},
    **{"「": "」", "『": "』", "【": "】", "《": "》", "〈": "〉"},
}
"""Opening quote -> closing quotes."""
_EMPHASIS = ("***", "**", "__", "*", "_")
_OPENER = r"(?:(?:sure|certainly|of course|okay|ok|yes)\b[,.!]*\s*)?(?:(?:here(?:['’]s| is| you (?:are|go))|this is)\s*)?"
_TERM = (
    r"(?:questions?|rewritten|re-written|rewrite|rephrased|reworded|revised|modified|changed|altered|edited|transformed|new|invalid|"
    r"subjective|ambiguous|unanswerable|answerable|original|final|variant|version|output|result|response|reply|answer)"
)
_ELSEWHERE = (
    r"(?:(?:[^\W\d_]+\s+){0,2}(?:frage|pregunta|domanda|pergunta|vraag|fråga|spørgsmål|spørsmål|kysymys|pytanie|otázka|kérdés|întrebare|"
    r"soru|вопрос|питання|сұрақ|ερώτηση|سؤال|प्रश्न|câu hỏi|pertanyaan)(?:\s+[^\W\d_]+){0,2}|"
    r"(?:nouvelle\s+)?question\s+(?:modifiée|reformulée|réécrite|invalide|ambiguë)|nouvelle\s+question|"
    r"\w{0,6}(?:问题|問題|質問|질문))(?:\s*\d)?"
)
"""Words for "question" in other languages."""
_REMARK_BEHIND = re.compile(
    r"(?<=[?？])([\"”»*_`]*)\s*(?:[*_]*\([^()]*\)[*_.]*|[*_]*\[[^\[\]]*\][*_.]*|</?\w+>|<\|\w+\|>|\s[-–—]{1,2}\s[^?？]*|[^\w\s()\[\]<>\"'“”‘’«»「」*_`?？]+)\Z"
)
_OFFER = re.compile(
    r"\A\W*(?:would\s+you\s+(?:also\s+|rather\s+)?(?:like|prefer|want)\b|do\s+you\s+(?:also\s+|still\s+)?(?:want|need|wish)\b|"
    r"(?:should|shall|can|could|may)\s+i\s+(?:also\s+)?(?:help|assist|provide|give|change|try|make|write|create|do|generate|rewrite|offer)\b|want\s+(?:me|another|more)\b|"
    r"(?:is\s+there\s+)?any(?:thing|\s+more|\s+other)\b.*\b(?:else|help|questions?|like|need)\b|how(?:['’]s|\s+is|\s+about)\s+(?:this|that)\b\W*\Z|"
    r"(?:does|did|do|will|would|is|are|was)\s+(?:this|that|it|these)\s+(?:work|help|suit|meet|look|sound|fit|make\s+sense|what|ok|okay|fine|alright|"
    r"all\s+right|acceptable)\b(?!.*\b(?:in|on|of)\s+the\s+(?:picture|image|photo)))",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"\A[\W_]*(?:(?:notes?|explanation|reason(?:ing)?|rationale|justification|comment|remark|hinweis|anmerkung|nota|remarque)\s*[:：]|\(.*\)\W*\Z)",
    re.IGNORECASE,
)
_LABEL_IN_PROMPT = re.compile(r"^\W*([A-Za-z][\w-]*(?: [\w-]+){0,3})\**:", re.MULTILINE)


def strip_fence(text: str) -> str:
    """Return a text without the code fence around it; only stripped if it has none."""
    fence = _FENCE.match(text.strip())
    return (fence[2] if fence and fence[1] not in fence[2] else text).strip()


def content_lines(text: str) -> list[str]:
    """Return the non-empty lines of a reply, without code fence and list marks."""
    return [_MARK.sub("", line.strip()).strip() for line in strip_fence(text).splitlines() if line.strip()]


def find_labels(prompt: str) -> frozenset[str]:
    r"""Return the labels before colons in a prompt, in lower case, which replies may repeat.

    >>> sorted(find_labels("Question: how many?\nRewritten: how much?"))
    ['question', 'rewritten']
    """
    return frozenset(label.lower() for label in _LABEL_IN_PROMPT.findall(prompt))


def strip_decoration(text: str, labels: Collection[str] = ()) -> str:
    """Return a text without the labels, quotes and emphasis around it.

    Args:
        labels: the prompt's labels, in addition to usual ones.

    >>> strip_decoration('**Rewritten question:** "Is it nice?"'), strip_decoration("Twist: is it?", ["twist"])
    ('Is it nice?', 'is it?')
    >>> strip_decoration('Why is it called "it"?')
    'Why is it called "it"?'
    """
    label = _label_pattern(frozenset(labels))
    before = None
    while text != before:
        before = text
        text = label.sub("", _unwrap(text)).strip()
    return text


def strip_remarks(text: str) -> str:
    """Return a line without what follows its question: a remark, sign or offer.

    >>> strip_remarks("Is it nice? (The dog is not there.)"), strip_remarks("Is it nice? Would you like another one?")
    ('Is it nice?', 'Is it nice?')
    """
    before = None
    while text != before:
        before = text
        text = _REMARK_BEHIND.sub(r"\1", text).rstrip()
        ends = [match.end() for match in re.finditer(r"[?？]", text)][:-1]
        if ends and is_offer(text[ends[-1] :]):
            text = text[: ends[-1]]
    return text


def is_offer(line: str) -> bool:
    """Return whether a line is an offer or note to the user: `Would you like another?`."""
    return bool(_OFFER.match(line) or _NOTE.match(line))


def is_doubtful(text: str, labels: Collection[str] = ()) -> bool:
    """Return whether a text has a label (`Answer:`) after a sentence or opens an unclosed quote."""
    opening, closing = text[:1], _PAIRS.get(text[:1], "")
    half = opening in set('"“„«') and (text.count('"') % 2 == 1 if opening == '"' else not set(closing) & set(text[1:]))
    return (bool(opening) and half) or _inner_label_pattern(frozenset(labels)).search(text) is not None


def _unwrap(text: str) -> str:
    text = text.strip()
    if tagged := _TAG.match(text):
        return tagged[2].strip()
    for mark in _EMPHASIS:
        inner = text[len(mark) : -len(mark)]
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark) and mark[0] not in inner:
            return inner.strip()
    closing = _PAIRS.get(text[:1], "")
    if len(text) > 1 and text[-1] in closing and not {text[0], text[-1]} & set(_strip_apostrophes(text[1:-1])):
        return text[1:-1].strip()
    if len(text) > 4 and text[:2] in ("''", "``") and text.endswith("''"):
        return text[2:-2].strip()
    return text


def _strip_apostrophes(text: str) -> str:
    return re.sub(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)", "", text)


@cache
def _label_pattern(labels: frozenset[str]) -> re.Pattern[str]:
    either = _label_regex(labels)
    ends = r"(?:[:：]{1,2}|\s(?:[-–—=]+>|[→⇒➜➔]|[-–—=])(?=\s))"
    named = rf"{either}[*_\"]*\s*{ends}|\*\*{either}\*\*(?=\s)|[(\[{{]{either}[)\]}}]\s*[:：]?(?=\s)"
    return re.compile(rf"\A[#>*_\"\s]*?(?:{named})[*_]*\s*", re.IGNORECASE)


@cache
def _inner_label_pattern(labels: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"[?.!\"”*)]\s+[#>*_]*{_label_regex(labels)}[*_]*\s*[:：]", re.IGNORECASE)


def _label_regex(labels: frozenset[str]) -> str:
    """Return a regular expression for labels: given, usual, after "Sure, here is", foreign."""
    own = [re.escape(label).replace(r"\ ", r"\s+") for label in sorted(labels, key=len, reverse=True)]
    usual = rf"{_OPENER}(?:(?:the|my|your|an?)\s+)?{_TERM}(?:\s+{_TERM}){{0,3}}(?:\s*\d\b|\s*\([^)]*\))?(?:\s+is)?"
    return f"(?:{'|'.join([*own, usual, _ELSEWHERE, r'(?:q|a)[ ]?[0-9]?'])})"
