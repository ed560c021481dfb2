"""Where the thinking of a reasoning model ends and its answer begins: by the chat template's switch, and by tags.

What a model thinks is no part of its answer: the answer alone is judged, and shown where a model is asked about it. A model that is still
thinking when its budget is spent has not answered. That is a value of its own, counted and never scored.
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
"""Openings and ends that published models put around their thinking."""
SWITCHES = ("enable_thinking", "thinking")
"""Variables by which chat templates turn thinking on and off."""
BUDGET = 1024
OF = ("answer", "thinking", "both")
ANSWERED, CUT, NO_ANSWER = 0, 1, 2
"""How an answer ended: with an answer, in the middle of thinking because the budget was spent, or by itself while thinking."""
FILTERED, TOO_LONG, UNREADABLE = 3, 4, 5
"""Of a server's reply without an answer: held back by its filter, longer than was allowed, of no text."""
AT_LIMIT, FILTER_CUT, REFUSED = 6, 7, 8
"""Of a server's reply with an answer: as long as was allowed, ended by its filter, in the field `refusal`."""
REASONS: Mapping[int, str] = {
    CUT: CUT_SHORT,
    NO_ANSWER: ENDED_THINKING,
    FILTERED: HELD_BACK,
    TOO_LONG: OVER_LIMIT,
    UNREADABLE: NO_READABLE_TEXT,
}
"""Why there is no answer."""
FINISHES: Mapping[int, str] = {AT_LIMIT: "length", FILTER_CUT: "content_filter", REFUSED: "refusal"}
"""What the column `finish` says of an answer that did not end by itself."""
COUNTED: Mapping[int, str] = {
    **REASONS,
    AT_LIMIT: "answers that end at max_new_tokens",
    FILTER_CUT: "answers that the server's content filter ended",
    REFUSED: "answers in the field `refusal`",
}
PARTING = 2
"""Version of the rule by which thinking ends. 2: tags within the thinking are counted (1: it ended at the first closing tag)."""
UNPARTED = "answers that hold thinking, of which the spec says nothing (`thinking: true`)"
"""What is counted where it would be scored as part of the answer."""
SETTINGS = ("tags", "budget", "of", "switch", "effort")


class ThinkingError(ValueError):
    """What a spec says about thinking cannot be. The message says what was expected, what came, what to do."""


@dataclass(frozen=True)
class Thinking:
    on: bool = True
    tags: tuple[str, str] | None = None
    """None: what most models use is looked for."""
    budget: int = BUDGET
    """Tokens of thinking, at most."""
    of: Literal["answer", "thinking", "both"] = "answer"
    """Whose tokens estimators read."""
    switch: str = ""
    """The template's variable; empty where it has none."""
    effort: str = ""
    """What a server is told about how much to think."""

    @property
    def shapes(self) -> dict[str, Any]:
        """What of this shapes answers; which of their tokens are read is chosen afterwards."""
        return {"on": self.on, "tags": self.tags, "budget": self.budget, "switch": self.switch, "effort": self.effort, "parting": PARTING}


def declared(value: bool | Mapping[Any, Any] | None) -> Thinking | None:
    """What a spec says: `true`, `false`, or `{tags: [OPEN, CLOSE], budget: N, of: answer, switch: NAME, effort: WORD}`.

    >>> declared({"budget": 64, "of": "both"})
    Thinking(on=True, tags=None, budget=64, of='both', switch='', effort='')

    Raises:
        ThinkingError: it says anything else.
    """
    if value is None or isinstance(value, bool):
        return None if value is None else Thinking(value)
    if odd := sorted(set(value) - set(SETTINGS)):
        raise ThinkingError(f"thinking: expected {', '.join(SETTINGS)}, got '{odd[0]}'")
    tags, budget, of = value.get("tags"), value.get("budget", BUDGET), value.get("of", "answer")
    if tags is not None and (not isinstance(tags, list) or len(tags) != 2 or not all(isinstance(t, str) and t.strip() for t in tags)):
        raise ThinkingError(f"thinking: tags: expected the text before the thinking and the one after it, as [OPEN, CLOSE], got {tags!r}")
    if tags is not None and tags[1].strip().startswith(tags[0].strip()):
        raise ThinkingError(f"thinking: tags: expected a text after the thinking that cannot be taken for the one before it, got {tags!r}")
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise ThinkingError(f"thinking: budget: expected a whole number of tokens, at least 1, got {budget!r}")
    if of not in OF:
        raise ThinkingError(f"thinking: of: expected one of {', '.join(OF)}, got {of!r}")
    for name in ("switch", "effort"):
        if not isinstance(value.get(name, ""), str):
            raise ThinkingError(f"thinking: {name}: expected a word, got {value[name]!r}")
    return Thinking(True, None if tags is None else (tags[0], tags[1]), budget, of, value.get("switch", ""), value.get("effort", ""))


def thinking_budget(value: bool | Mapping[str, Any] | None) -> int:
    """Tokens of thinking that what a spec says allows beside an answer's.

    >>> thinking_budget(None), thinking_budget(False), thinking_budget(True), thinking_budget({"budget": 7})
    (0, 0, 1024, 7)
    """
    thinking = declared(value)
    return thinking.budget if thinking is not None and thinking.on else 0


def of_template(template: str) -> Thinking | None:
    """What a chat template shows of thinking: its switch and the tags that occur in it; None where it shows neither."""
    from jinja2 import Environment, TemplateError, meta

    try:
        free = meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template))  # noqa: S701 - only parsed
    except TemplateError:
        free = {name for name in SWITCHES if re.search(rf"\b{name}\b", template)}
    switch = next((name for name in SWITCHES if name in free), "")
    tags = next((pair for pair in TAGS if pair[1] in template), None)
    return Thinking(tags=tags, switch=switch) if switch or tags else None


def settled(thinking: Thinking, template: str) -> Thinking:
    """Complete what a spec says of thinking by the model's chat template.

    Raises:
        ThinkingError: neither tells by what the thinking is marked, a named switch is not the template's, or it is meant for a server.
    """
    if thinking.effort:
        raise ThinkingError(
            f"thinking: effort: only servers are told of it, got '{thinking.effort}'; leave it out of a model that runs here"
        )
    by_template = of_template(template)
    if thinking.switch and (by_template is None or thinking.switch not in template):
        raise ThinkingError(f"thinking: switch: the chat template has no variable '{thinking.switch}'; leave it out, or give a `template:`")
    tags = thinking.tags or (by_template.tags if by_template else None)
    if tags is None:
        raise ThinkingError(
            "thinking: the chat template shows no tags of thinking; name them: `thinking: {tags: ['<think>', '</think>']}`, or leave "
            "`thinking` out of a model that does none"
        )
    return replace(thinking, tags=tags, switch=thinking.switch or (by_template.switch if by_template else ""))


def opened(text: str, tags: tuple[str, str]) -> bool:
    """Whether a prompt ends in the middle of thinking: its template has written the opening tag."""
    return text.rstrip().endswith(tags[0].rstrip())


def silent(prompt: str, thinking: Thinking) -> str:
    """A prompt after which the answer comes at once: the thinking, if the template leaves room for any, is closed and empty."""
    assert thinking.tags is not None
    if opened(prompt, thinking.tags):
        return f"{prompt.rstrip()}\n\n{thinking.tags[1]}\n\n"
    return prompt if thinking.switch else f"{prompt}{thinking.tags[0]}\n\n{thinking.tags[1]}\n\n"


def parted(text: str, tags: tuple[str, str] | None = None) -> tuple[str | None, str | None]:
    """Split a reply into thinking and answer.

    The thinking is None if the reply has none, the answer is None if the thinking does not end.

    >>> parted("<think>Red or blue?</think>\\nRed")
    ('Red or blue?', 'Red')
    >>> parted("<think>Red <think>or</think> blue?</think>Red")
    ('Red <think>or</think> blue?', 'Red')
    >>> parted("Red or blue?</think>Red"), parted("Red"), parted("<think>Red or")
    (('Red or blue?', 'Red'), (None, 'Red'), ('Red or', None))
    """
    for begin, end in TAGS if tags is None else (tags,):
        if (place := end_of_thinking(text, begin, end)) is not None:
            thought, answer = text[:place].removesuffix(end).strip().removeprefix(begin).strip(), text[place:].strip()
            later, rest = (
                parted(answer, (begin, end)) if begin in answer and (end in answer or answer.startswith(begin)) else (None, answer)
            )
            return (thought, answer) if later is None else (f"{thought}\n\n{later}", rest)
        if text.lstrip().startswith(begin):
            return text.lstrip().removeprefix(begin).strip(), None
    return None, text


def end_of_thinking(text: str, begin: str, end: str) -> int | None:
    """The place behind the tag that closes as many as were opened; where tags are missing, behind the last closing one. None without any.

    >>> end_of_thinking("<t>a <t>b</t> c</t>Red", "<t>", "</t>"), end_of_thinking("a <t>b</t>Red", "<t>", "</t>")
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
