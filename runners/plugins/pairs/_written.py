"""Pairs written by a language model: read in any style, and checked for content.

A question that reveals its answer, or an abstention in the place of an answer, would teach a model the wrong thing unnoticed.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from qualm.runners.contracts.generators import NoPairError
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.prompts.bare import content_lines, is_doubtful, is_offer, strip_decoration
from qualm.runners.prompts.labelled import Form, UnreadableReplyError, find_json, is_aside, read_labelled
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.scoring.answer_text import normalise

LABELS = ("Q1", "A1", "Q2", "A2")
NOT_GOOD = "not a good question"
QUESTION_MARKS = ("?", "？", "؟")
_MARK, _QUOTED = re.compile(r"[?？؟]"), re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|'[^']*\?'|「[^」]*」")

_ELSEWHERE = {
    "question": ["frage", "question", "pregunta", "domanda", "pergunta", "vraag", "fråga", "pytanie", "вопрос", "soru", "问题", "問題",
                 "質問", "질문"],
    "answer": ["antwort", "réponse", "respuesta", "risposta", "resposta", "antwoord", "svar", "odpowiedź", "ответ", "cevap", "答案",
               "回答", "답변"],
}  # fmt: skip
"""Names of the parts in other languages."""
_SIDES = {"unanswerable": ("not answerable", "non answerable", "idk", "invalid"), "answerable": ("contrastive", "counterpart", "valid")}
"""Further names of the two questions."""


def _names(kind: str, number: str, side: str) -> tuple[str, ...]:
    """Return the names by which replies may call a part, such as `q1` or `first question`.

    `side` is that of the pair: answerable or unanswerable.
    """
    letter, short = kind[0], kind[: 4 if kind == "question" else 3]
    nth, ordinal, word, place, can = {"1": ("first", "1st", "one", "a", "cannot"), "2": ("second", "2nd", "two", "b", "can")}[number]
    own = (
        f"{letter}{number}",
        f"{kind} {number}",
        f"{kind} {word}",
        f"{number} {kind}",
        f"{number} {letter}",
        f"{kind}s {number}",
        f"{nth} {kind}",
        f"{ordinal} {kind}",
        f"{kind} {place}",
        f"{short}{number}",
        f"{short} {number}",
        f"q{number} {letter}",
        f"pair {number} {kind}",
        f"expected {kind} {number}",
        f"expected {letter}{number}",
        f"{kind} {'i' * int(number)}",
        *(f"{word} {number}" for word in _ELSEWHERE[kind]),
        *(f"{word}{number}" for word in _ELSEWHERE[kind] if not word.isascii()),
        *(f"{other} {kind}" for other in _SIDES[side]),
        f"{side} pair {kind}",
        f"{side} qa {kind}",
    )
    by_side = (f"{side} {kind}", f"{kind} {side}", f"{side} {letter}", f"{side} {letter}{number}", f"{letter}{number} {side}")
    if kind == "question":
        return (*own, *by_side, f"{side} {kind} {number}", f"q{number} question", f"{kind} that {can} be answered")
    to = (f"q{number}", f"question {number}", f"{side} question")
    return (
        *own,
        *by_side,
        f"{side} {kind} {number}",
        f"{side} response",
        f"response {number}",
        f"q{number} answer",
        f"{side} question answer",
        *(f"answer to {name}" for name in to),
    )


_FORM = Form(
    {
        "Q1": _names("question", "1", "unanswerable"),
        "A1": (*_names("answer", "1", "unanswerable"), "refusal"),
        "Q2": _names("question", "2", "answerable"),
        "A2": _names("answer", "2", "answerable"),
    },
    {
        **dict.fromkeys(("question", "ques", "q", *_ELSEWHERE["question"]), ("Q1", "Q2")),
        **dict.fromkeys(("answer", "ans", "response", "a", *_ELSEWHERE["answer"]), ("A1", "A2")),
    },
)
_VERDICT = re.compile(r"\A[(\[](?:un)?answerable[)\]][:.\s]+(?=\w)|(?<=\S)\s*[(\[](?:un)?answerable[)\]]\.?\Z", re.IGNORECASE)
_LEFT_LABEL = re.compile(r"\A\W*[QA]\W{0,4}\d\b|\A(?=.*[^\W_])[\w. ]{1,24}[:：∶]")
"""Beginning of a part that may be an unknown label."""
_BEHIND = re.compile(
    r"(?:\s*[\u2600-\u27bf\U0001f300-\U0001faff\ufe0f]){1,8}\Z|(?<=\w)\s*[(\[](?:as |which is )?(?:stated|mentioned|given|described|shown|"
    r"seen|visible|per|according to|based on|from|in)\b[^()\[\]]*\b(?:caption|picture|image|photo|description)\b[^()\[\]]*[)\]]\.?\Z",
    re.IGNORECASE,
)
"""A sign behind a part, or a reference to the caption or image."""
_BRACKETED_VERDICT = re.compile(r"[(\[]((?:un)?answerable\.?)[)\]]\.?", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"[<\[{(]\s*(?:(?:the|your|a|an|first|second|new|(?:un)?answerable|idk)\s+)*(?:question|answer|refusal|text)(?:\s+(?:to|for)\s+\w+)?(?:\s*\d)?"
    r"\s*[>\]})]\s*[?.]?",
    re.IGNORECASE,
)
_LABEL_INSIDE = re.compile(r"\b[QA]\s?[12]\s*[:：]|\A\W*[QA]\W{0,4}[12]\b\W*\s|\A(?:[:：|=]|\*\*|__)|<[/\w][^<>]*>|\|")
"""A further label, or the remains of an unknown mark."""
_DECLINED = re.compile(
    r"(?:(?:this|that|the|it)(?: question)? is )?(?:un|not )(?:answer|determin)able\b(?:[.!]?\Z| ?\(| ?[-–—:,.;] |"
    r" (?:given|because|as|since|from|due|without|with|in|by|based)\b)|no (?:information|details?|indication|clues?)\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:is|so|hence|therefore|thus|remains?) (?:it(?: is|'s) |\w+ly )?(?:unanswerable|ambiguous|unknown|undetermined|"
    r"unclear)(?:[.!]?\Z| (?:because|as|since)\b)|\b(?:caption|description|text|picture|image|photo) (?:alone )?(?:does not|doesn[’']t|"
    r"cannot|can[’']t) (?:say|tell|show|specify|mention|state|indicate|give|provide|reveal|describe|include|contain|name|identify)\b|"
    r"\bno information\b|\binformation (?:is )?(?:not (?:available|provided|given|present)|unavailable|missing)\b|\bcan(?:not|"
    r"[’']t) be (?:found|known)\b|\A(?:that|it|this)(?: is|[’']s) (?:\w+ )?(?:subjective|a matter of \w+)\b|\Ait varies[.]?\Z|"
    r"\A(?:impossible|undisclosed|undefined)[.!]?\Z|\A(?:both|either|any)(?: one)?(?: of (?:the|these|those) \w+)? (?:is|are|could be|"
    r"may be|might be) (?:possible|true|right|correct)\b|\Ait (?:could|may|might) be (?:either|any)\b|\Aonly the \w+ (?:would|could|"
    r"can) (?:know|tell|say)\b|\Awhich (?:\w+ ){0,2}\w+\? ",
    re.IGNORECASE,
)
"""Words that abstain if an abstention was requested; elsewhere some of them answer."""
_AFTER_ALL = re.compile(r"\b(?:but|maybe|perhaps|probably|though|although|yet|likely|guess|think|seems|appears|looks)\b", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenPair:
    """An unanswerable question with an abstention, and an answerable one with its answer."""

    unanswerable: str
    refusal: str
    answerable: str
    answer: str


def read_pair(text: str | None, earlier: Collection[str] = ()) -> WrittenPair:
    """Parse the pair of questions in a reply; NoPairError if it holds no usable pair.

    Args:
        text: `Q1: ... A1: ... Q2: ... A2: ...` in any style, or JSON: Q1 is unanswerable, Q2 answerable.
        earlier: earlier questions about this image, normalised.

    Raises:
        NoPairError: with one of the reasons "no reply", "not a good question", those of `qualm.runners.prompts.labelled`, "empty part",
            "two things in one part", "not a question", "same question twice", "asked before", "unanswerable one is answered", "answerable
            one is declined", "answer in the question".
    """
    if text is None:
        raise NoPairError("no reply")
    if NOT_GOOD in text.casefold():
        raise NoPairError(NOT_GOOD)
    pair = WrittenPair(*(_read_unlabelled(text) or read_parts(text, _FORM).values()))
    if any(len(_MARK.findall(_QUOTED.sub("", question))) > 1 for question in (pair.unanswerable, pair.answerable)):
        raise NoPairError("two things in one part")
    if not (pair.unanswerable.endswith(QUESTION_MARKS) and pair.answerable.endswith(QUESTION_MARKS)):
        raise NoPairError("not a question")
    first, second = normalise(pair.unanswerable), normalise(pair.answerable)
    if first == second:
        raise NoPairError("same question twice")
    if first in earlier or second in earlier:
        raise NoPairError("asked before")
    if not (declines(pair.refusal, pair.unanswerable) or (_REFUSAL.search(pair.refusal) and not _AFTER_ALL.search(pair.refusal))):
        raise NoPairError("unanswerable one is answered")
    if declines(pair.answer, pair.answerable):
        raise NoPairError("answerable one is declined")
    if gives_away(pair.answerable, pair.answer):
        raise NoPairError("answer in the question")
    return pair


def declines(answer: str, question: str) -> bool:
    """Return whether an answer abstains, also in words that only written pairs use."""
    return is_refusal(answer, question) or (_DECLINED.match(answer) is not None and _AFTER_ALL.search(answer) is None)


def _read_unlabelled(text: str) -> list[str] | None:
    """Return the parts (Q1, A1, Q2, A2) of a reply that has them unlabelled; else None."""
    plain = clean_reply(text)
    listed = next(find_json(plain), None) if plain.lstrip().startswith("[") else None
    if isinstance(listed, list):
        flat = [part for item in listed for part in (item if isinstance(item, list) else [item])]
        rows = flat if all(isinstance(part, str) for part in flat) else []
    else:
        rows = [line for line in content_lines(plain) if not line.startswith("```")]
    if len(rows) != len(LABELS) or any(is_aside(row) or is_offer(row) for row in (rows[0], *rows[2:])):
        return None
    asks = [strip_decoration(row).endswith(QUESTION_MARKS) for row in rows]
    if asks != [True, False, True, False] or any(_FORM.numbered(row) for row in rows):
        return None
    if any(all(_LEFT_LABEL.match(strip_decoration(row)) for row in rows[side::2]) for side in (0, 1)):
        return None
    return [clean_part(row) for row in rows]


def questions_of(pair: WrittenPair) -> set[str]:
    """Return both questions of a pair, normalised, to detect duplicates."""
    return {normalise(pair.unanswerable), normalise(pair.answerable)}


def gives_away(question: str, answer: str) -> bool:
    """Return whether a question contains its answer but no "or" (a choice: "red or blue?")."""
    words, text = normalise(answer), f" {normalise(question)} "
    return bool(words) and f" {words} " in text and " or " not in text


def read_parts(text: str, form: Form) -> dict[str, str]:
    """Return label -> text of a reply's parts, without quotes; NoPairError if unreadable."""
    try:
        return {label: clean_part(part) for label, part in read_labelled(text, form).items()}
    except UnreadableReplyError as why:
        raise NoPairError(str(why)) from None


def clean_part(text: str) -> str:
    """Return a part's text without labels, quotes, verdicts; NoPairError if empty or double."""
    content, before = text, None
    while content != before:
        before = content
        verdict = _BRACKETED_VERDICT.fullmatch(content)
        content = verdict[1] if verdict else _unbracketed(_BEHIND.sub("", _VERDICT.sub("", strip_decoration(content)).strip()))
        if _PLACEHOLDER.fullmatch(before):
            raise NoPairError("empty part")
    if not any(c.isalnum() for c in content):
        raise NoPairError("empty part")
    if is_doubtful(content) or _LABEL_INSIDE.search(content):
        raise NoPairError("two things in one part")
    return content


def _unbracketed(text: str) -> str:
    return text[1:-1].strip() if len(text) > 2 and text[0] == "<" and text[-1] == ">" and not set("<>") & set(text[1:-1]) else text


def prompt_sections(about: Mapping[str, Any]) -> dict[str, str]:
    """Return heading -> text for the prompt, from a category's entry in the taxonomy."""
    parts: dict[str, str] = {}
    examples = [str(e).strip() for e in about.get("examples") or ()]
    if examples and all(all(f"{label}:" in e for label in LABELS) for e in examples):
        parts["Examples"] = "\n\n".join(examples)
    elif examples:
        parts["Questions of this kind"] = "\n".join(f"- {e}" for e in examples)
    if about.get("answer"):
        parts["What a right answer to the first question is"] = str(about["answer"]).strip()
    if about.get("definition"):
        parts["Definition"] = str(about["definition"]).strip()
    return parts
