"""Thinking in a server's replies, separated from the answer by a field or by tags, in text and in tokens.

Servers return it as `reasoning_content` (vLLM, SGLang, DeepSeek) or `reasoning` (OpenRouter, newer vLLM) beside the answer, or leave the
tags in the text. Log-probabilities are of all tokens; those of the answer are located at their end.
"""

from dataclasses import replace

from qualm.runners.prompts.thinking import (
    ANSWERED,
    AT_LIMIT,
    CUT,
    FILTER_CUT,
    FILTERED,
    NO_ANSWER,
    REFUSED,
    TOO_LONG,
    UNREADABLE,
    Thinking,
    split_thinking,
)
from qualm.runners.servers.replies import NO_SPELLING, CompletionChoice, locate_tokens


def separate_thinking(choice: CompletionChoice, thinking: Thinking | None) -> tuple[CompletionChoice, int]:
    """Return (choice reduced to its answer, outcome code such as ANSWERED or CUT).

    Where there is an answer, the choice's `reasoning` has all of the thinking.

    Args:
        choice: as the server gave it.
        thinking: what the spec says; None where nothing.
    """
    if choice.too_long or choice.unreadable or (choice.filtered and not choice.text):
        return _without_answer(choice, thinking), TOO_LONG if choice.too_long else UNREADABLE if choice.unreadable else FILTERED
    if choice.refused:
        return choice if choice.reasoning is None else _cut_to_read(choice, None, None), REFUSED
    answer: str | None = choice.text or None
    if choice.reasoning is None and thinking is not None and thinking.on:
        thought, answer = split_thinking(choice.text, thinking.tags)
        if (
            thought is None and choice.text
        ):  # a prompt may have opened the thinking: what is as long as both may be never came to an end of it
            return (_without_answer(replace(choice, reasoning=choice.text), thinking), CUT) if choice.cut else (choice, _ending(choice))
        choice = replace(choice, reasoning=thought or None)
    elif choice.reasoning is None:
        return (choice, _ending(choice)) if answer or not choice.cut else (_without_answer(choice, thinking), CUT)
    else:  # a server that ends it at the first closing tag may leave a later one in the answer
        thought, rest = split_thinking(choice.text, None if thinking is None else thinking.tags)
        if thought is not None:
            choice, answer = replace(choice, reasoning="\n\n".join(filter(None, (choice.reasoning, thought)))), rest
    if not answer:
        return _without_answer(choice, thinking), CUT if choice.cut else NO_ANSWER
    place = locate_tokens(choice.tokens or (), answer)
    return _cut_to_read(replace(choice, text=answer), None if place is None else place[0], thinking), _ending(choice)


def _ending(choice: CompletionChoice) -> int:
    return FILTER_CUT if choice.filtered else AT_LIMIT if choice.cut else ANSWERED


def _without_answer(choice: CompletionChoice, thinking: Thinking | None) -> CompletionChoice:
    cut = replace(choice, text="", ids=None, tops=[], ended=False)
    return cut if thinking is not None and thinking.of != "answer" else replace(cut, logprobs=None)


def _cut_to_read(choice: CompletionChoice, start: int | None, thinking: Thinking | None) -> CompletionChoice:
    """Cut logprobs to `thinking.of` (answer, thinking or both), tops and ids to the answer."""
    of = "answer" if thinking is None else thinking.of
    if start is None:
        logprobs = choice.logprobs if of == "both" else None
        return replace(choice, logprobs=logprobs, tops=[], ids=None, no_logprobs=choice.no_logprobs or NO_SPELLING)
    whole = choice.ids is not None and len(choice.ids) == len(choice.tokens or ())
    chosen = {"answer": slice(start, None), "thinking": slice(0, start), "both": slice(None)}[of]
    logprobs = None if choice.logprobs is None else choice.logprobs[chosen]
    return replace(choice, logprobs=logprobs, tops=choice.tops[start:], ids=choice.ids[start:] if whole and choice.ids else None)
