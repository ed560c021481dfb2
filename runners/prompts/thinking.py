"""Thinking of reasoning models: its end, by the chat template's switch and by tags.

Thinking is no part of the answer: only the answer is judged. A model that is still thinking when its budget is spent has not answered;
such answers are counted and never scored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from qualm.registry import CUT_SHORT, ENDED_THINKING, HELD_BACK, NO_READABLE_TEXT, OVER_LIMIT

TAGS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<seed:think>", "</seed:think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
)
"""Tags around the thinking of published models."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which chat templates turn thinking on and off."""
DEFAULT_BUDGET = 1024
TOKEN_CHOICES = ("answer", "thinking", "both")
ANSWERED, CUT, NO_ANSWER = 0, 1, 2
"""Outcome: with an answer, cut while thinking by the budget, or ended by itself while thinking."""
FILTERED, TOO_LONG, UNREADABLE = 3, 4, 5
"""Outcome of a server's reply without an answer: filtered, over the limit, no readable text."""
AT_LIMIT, FILTER_CUT, REFUSED = 6, 7, 8
"""Outcome of a server's reply with an answer: at the limit, cut by the filter, in the field `refusal`."""
REASONS: Mapping[int, str] = {
    CUT: CUT_SHORT,
    NO_ANSWER: ENDED_THINKING,
    FILTERED: HELD_BACK,
    TOO_LONG: OVER_LIMIT,
    UNREADABLE: NO_READABLE_TEXT,
}
"""Reason for a missing answer, by outcome."""
FINISHES: Mapping[int, str] = {AT_LIMIT: "length", FILTER_CUT: "content_filter", REFUSED: "refusal"}
"""Value of the column `finish`, by outcome."""
COUNTED: Mapping[int, str] = {
    **REASONS,
    AT_LIMIT: "answers that end at max_new_tokens",
    FILTER_CUT: "answers that the server's content filter ended",
    REFUSED: "answers in the field `refusal`",
}
SPLIT_VERSION = 2
"""Version of the rule for the end of thinking. 2: nested tags are counted (1: the first closing tag ended it)."""
UNPARTED = "answers with thinking that the spec does not declare (set `thinking: true`)"
"""Counter of answers whose thinking would be scored as part of the answer."""
SETTINGS = ("tags", "budget", "of", "switch", "effort")


class ThinkingError(ValueError):
    """A spec's `thinking` is invalid; the message says what was expected and what came."""


@dataclass(frozen=True)
class Thinking:
    """Settings of a model's thinking: on or off, tags, budget, effort, what estimators read."""

    on: bool = True
    tags: tuple[str, str] | None = None
    """Opening and closing tag; None = those of published models."""
    budget: int = DEFAULT_BUDGET
    """Maximum tokens of thinking."""
    of: Literal["answer", "thinking", "both"] = "answer"
    """Tokens that estimators read."""
    switch: str = ""
    """The chat template's variable; empty without one."""
    effort: str = ""
    """Reasoning effort, sent to a server."""

    @property
    def answer_settings(self) -> dict[str, Any]:
        """Return name -> value of the settings that change answers, for storage keys; not `of`."""
        return {
            "on": self.on,
            "tags": self.tags,
            "budget": self.budget,
            "switch": self.switch,
            "effort": self.effort,
            "parting": SPLIT_VERSION,
        }


def parse_thinking(value: bool | Mapping[Any, Any] | None) -> Thinking | None:
    """Parse a spec's `thinking:`, a boolean or a mapping of SETTINGS; None for None.

    >>> parse_thinking({"budget": 64, "of": "both"})
    Thinking(on=True, tags=None, budget=64, of='both', switch='', effort='')

    Raises:
        ThinkingError: for any other value.
    """
    if value is None or isinstance(value, bool):
        return None if value is None else Thinking(value)
    if odd := sorted(set(value) - set(SETTINGS)):
        raise ThinkingError(f"thinking: expected {', '.join(SETTINGS)}, got '{odd[0]}'")
    tags, budget, of = value.get("tags"), value.get("budget", DEFAULT_BUDGET), value.get("of", "answer")
    if tags is not None and (not isinstance(tags, list) or len(tags) != 2 or not all(isinstance(t, str) and t.strip() for t in tags)):
        raise ThinkingError(f"thinking: tags: expected the text before the thinking and the one after it, as [OPEN, CLOSE], got {tags!r}")
    if tags is not None and tags[1].strip().startswith(tags[0].strip()):
        raise ThinkingError(f"thinking: tags: expected a text after the thinking that cannot be taken for the one before it, got {tags!r}")
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise ThinkingError(f"thinking: budget: expected a whole number of tokens, at least 1, got {budget!r}")
    if of not in TOKEN_CHOICES:
        raise ThinkingError(f"thinking: of: expected one of {', '.join(TOKEN_CHOICES)}, got {of!r}")
    for name in ("switch", "effort"):
        if not isinstance(value.get(name, ""), str):
            raise ThinkingError(f"thinking: {name}: expected a word, got {value[name]!r}")
    return Thinking(True, None if tags is None else (tags[0], tags[1]), budget, of, value.get("switch", ""), value.get("effort", ""))


def thinking_budget(value: bool | Mapping[str, Any] | None) -> int:
    """Return the maximum extra tokens for thinking by a spec's `thinking:`; 0 if it is off.

    >>> thinking_budget(None), thinking_budget(False), thinking_budget(True), thinking_budget({"budget": 7})
    (0, 0, 1024, 7)
    """
    thinking = parse_thinking(value)
    return thinking.budget if thinking is not None and thinking.on else 0


def detect_thinking(template: str) -> Thinking | None:
    """Return Thinking with the switch and tags of a chat template; None if it has neither."""
    from jinja2 import Environment, TemplateError, meta

    try:
        free = meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template))  # noqa: S701 - only parsed
    except TemplateError:
        free = {name for name in SWITCHES if re.search(rf"\b{name}\b", template)}
    switch = next((name for name in SWITCHES if name in free), "")
    tags = next((pair for pair in TAGS if pair[1] in template), None)
    return Thinking(tags=tags, switch=switch) if switch or tags else None


def complete_thinking(thinking: Thinking, template: str) -> Thinking:
    """Return a spec's `thinking` with missing tags and switch taken from the chat template.

    Raises:
        ThinkingError: no tags are known, the template lacks the switch, or `effort` is set, which is for servers.
    """
    if thinking.effort:
        raise ThinkingError(
            f"thinking: effort: it is sent to servers only, got '{thinking.effort}'; leave it out of a model that runs here"
        )
    by_template = detect_thinking(template)
    if thinking.switch and (by_template is None or thinking.switch not in template):
        raise ThinkingError(f"thinking: switch: the chat template has no variable '{thinking.switch}'; leave it out, or give a `template:`")
    tags = thinking.tags or (by_template.tags if by_template else None)
    if tags is None:
        raise ThinkingError(
            "thinking: the chat template shows no tags of thinking; name them: `thinking: {tags: ['<think>', '</think>']}`, or leave "
            "`thinking` out of a model that does none"
        )
    return replace(thinking, tags=tags, switch=thinking.switch or (by_template.switch if by_template else ""))


def ends_in_thinking(text: str, tags: tuple[str, str]) -> bool:
    """Return whether a prompt ends with the opening tag, so that the model begins by thinking."""
    return text.rstrip().endswith(tags[0].rstrip())


def close_thinking(prompt: str, thinking: Thinking) -> str:
    """Return a prompt after which the model answers at once: its thinking is already closed.

    Empty tags are added, unless the chat template's switch has turned thinking off.
    """
    assert thinking.tags is not None
    if ends_in_thinking(prompt, thinking.tags):
        return f"{prompt.rstrip()}\n\n{thinking.tags[1]}\n\n"
    return prompt if thinking.switch else f"{prompt}{thinking.tags[0]}\n\n{thinking.tags[1]}\n\n"


def split_thinking(text: str, tags: tuple[str, str] | None = None) -> tuple[str | None, str | None]:
    r"""Split a reply into (thinking, answer); None for no thinking, or for no answer yet.

    The thinking is None if the reply has none, the answer is None if the thinking does not end.

    >>> split_thinking("<think>Red or blue?</think>\nRed")
    ('Red or blue?', 'Red')
    >>> split_thinking("<think>Red <think>or</think> blue?</think>Red")
    ('Red <think>or</think> blue?', 'Red')
    >>> split_thinking("Red or blue?</think>Red"), split_thinking("Red"), split_thinking("<think>Red or")
    (('Red or blue?', 'Red'), (None, 'Red'), ('Red or', None))
    """
    for begin, end in TAGS if tags is None else (tags,):
        if (place := find_thinking_end(text, begin, end)) is not None:
            thought, answer = text[:place].removesuffix(end).strip().removeprefix(begin).strip(), text[place:].strip()
            later, rest = (
                split_thinking(answer, (begin, end)) if begin in answer and (end in answer or answer.startswith(begin)) else (None, answer)
            )
            return (thought, answer) if later is None else (f"{thought}\n\n{later}", rest)
        if text.lstrip().startswith(begin):
            return text.lstrip().removeprefix(begin).strip(), None
    return None, text


def find_thinking_end(text: str, begin: str, end: str) -> int | None:
    """Return the index after the closing tag that ends the thinking; None without one.

    >>> find_thinking_end("<t>a <t>b</t> c</t>Red", "<t>", "</t>"), find_thinking_end("a <t>b</t>Red", "<t>", "</t>")
    (19, 10)
    """
    depth, place = 0, None
    for mark in re.finditer(f"{re.escape(begin)}|{re.escape(end)}", text):
        depth += 1 if mark[0] == begin else -1
        if mark[0] == end:
            place = mark.end()
            if depth <= 0:  # below zero where the prompt opened it
                break
    return place
