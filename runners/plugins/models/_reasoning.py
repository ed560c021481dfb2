"""Thinking in a server's replies, separated from the answer by a field or by tags, in text and in tokens.

Servers return it as `reasoning_content` (vLLM, SGLang, DeepSeek) or `reasoning` (OpenRouter, newer vLLM) beside the answer, or leave the
tags in the text. Log-probabilities are of all tokens; those of the answer are located at their end.
"""

from collections.abc import Sequence
from dataclasses import replace

from qualm.runners.plugins.models._completions import Choice
from qualm.runners.prompts.thinking import ANSWERED, CUT, NO_ANSWER, Thinking, parted


def answered(choice: Choice, thinking: Thinking | None) -> tuple[Choice, int]:
    """Return a choice reduced to its answer (tokens: as `thinking.of` says), and how it ended."""
    answer: str | None = choice.text or None
    if choice.reasoning is None and thinking is not None and thinking.on:
        thought, answer = parted(choice.text, thinking.tags)
        if (
            thought is None and choice.text
        ):  # a prompt may have opened the thinking: what is as long as both may be never came to an end of it
            return (_without_answer(choice, thinking), CUT) if choice.cut else (choice, ANSWERED)
    elif choice.reasoning is None:
        return (choice, ANSWERED) if answer or not choice.cut else (_without_answer(choice, thinking), CUT)
    else:  # a server that ends it at the first closing tag may leave a later one in the answer
        thought, rest = parted(choice.text, None if thinking is None else thinking.tags)
        answer = answer if thought is None else rest
    if not answer:
        return _without_answer(choice, thinking), CUT if choice.cut else NO_ANSWER
    return _between(replace(choice, text=answer), _first(choice.tokens or (), answer), thinking), ANSWERED


def _without_answer(choice: Choice, thinking: Thinking | None) -> Choice:
    cut = replace(choice, text="", ids=None, tops=[], ended=False)
    return cut if thinking is not None and thinking.of != "answer" else replace(cut, logprobs=None)


def _between(choice: Choice, start: int | None, thinking: Thinking | None) -> Choice:
    """Keep the tokens to read; ids and alternatives are always those of the answer."""
    of = "answer" if thinking is None else thinking.of
    if start is None:
        return replace(choice, logprobs=choice.logprobs if of == "both" else None, tops=[], ids=None)
    whole = choice.ids is not None and len(choice.ids) == len(choice.tokens or ())
    chosen = {"answer": slice(start, None), "thinking": slice(0, start), "both": slice(None)}[of]
    logprobs = None if choice.logprobs is None else choice.logprobs[chosen]
    return replace(choice, logprobs=logprobs, tops=choice.tops[start:], ids=choice.ids[start:] if whole and choice.ids else None)


def _first(tokens: Sequence[str], answer: str) -> int | None:
    """Return the index of the answer's first token if it ends the tokens, else None."""
    text = ""
    for place in range(len(tokens) - 1, -1, -1):
        text = tokens[place] + text
        if text.strip() == answer.strip() and tokens[place].strip():
            return place
    return None
