"""A server's chat completion: its text, the log-probabilities of its tokens, and those of the likeliest alternatives.

A server shows the `top_logprobs` likeliest tokens of each position and no more. What would need another is undefined; nothing is
put in its place.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qualm.registry.formats.plausible import LEAST_LOGPROB
from qualm.runners.inference.hf.own_answer import SPELLINGS
from qualm.runners.prompts.question import LETTERS
from qualm.runners.servers.client import Rejected, Stopped
from qualm.runners.servers.protocol import Nonsense, excerpt, used

_SPACES = " \t\n\u2581\u0120"
"""What may stand before a word in a token, also as tokenizers spell it."""


@dataclass(frozen=True)
class Choice:
    """One answer of a completion."""

    text: str
    logprobs: list[float] | None
    """Of its tokens, where they were asked for."""
    tops: list[dict[str, float]]
    """For each of them the likeliest tokens of its position and their log-probabilities."""
    ids: list[int] | None
    """Ids of its tokens, where the server shows them."""
    ended: bool
    """It ended by itself, and the end is not among the tokens that are shown."""
    filtered: bool
    """The server's filter held it back."""
    tokens: list[str] | None = None
    """Its tokens as text, where their log-probabilities were asked for."""
    reasoning: str | None = None
    """What was thought before it, where the server tells it apart."""
    cut: bool = False
    """It ended because it was as long as was allowed."""


@dataclass(frozen=True)
class Completion:
    choices: list[Choice]
    prompt: list[dict[int, float]] | None
    """For every token of the prompt its id and log-probability, where the server shows them."""
    served: tuple[str, str]
    """The model as the server names it, and its fingerprint."""


def read(answer: Mapping[str, Any]) -> Completion:
    """Check a reply; raise Nonsense where it is none."""
    try:
        choices = [_choice(c) for c in answer["choices"]]
        prompt = answer.get("prompt_logprobs")
        scored = None if prompt is None else [_scored(entry) for entry in prompt]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise Nonsense(f"expected a chat completion, got {excerpt(json.dumps(answer))}") from None
    if not choices:
        raise Nonsense(f"expected a chat completion with a choice, got {excerpt(json.dumps(answer))}")
    used(answer)
    return Completion(choices, scored, (str(answer.get("model") or ""), str(answer.get("system_fingerprint") or "")))


def read_one(answer: Mapping[str, Any]) -> Completion:
    """Check a reply of one choice; raise Nonsense, or Rejected where a filter held it back."""
    completion = read(answer)
    if completion.choices[0].filtered:
        raise Rejected("the server's content filter held the answer back")
    return completion


def option_logits(tops: Sequence[Mapping[str, float]], n: int) -> list[float] | str:
    """Log-probabilities of the first n letters at an answer's first position, which are logits; or which ones are not shown."""
    first = tops[0] if tops else {}
    values = [_together(first, (letter,)) for letter in LETTERS[:n]]
    hidden = [letter for letter, value in zip(LETTERS, values, strict=False) if value is None]
    if hidden:
        return f"{', '.join(hidden)} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return [value for value in values if value is not None]


def yes_share(tops: Sequence[Mapping[str, float]]) -> float | str:
    """P(yes) / (P(yes) + P(no)) at a reply's first position, or which of the two is not shown."""
    first = tops[0] if tops else {}
    yes, no = (_together(first, SPELLINGS[word]) for word in ("yes", "no"))
    if yes is None or no is None:
        hidden = " and ".join(word for word, value in (("yes", yes), ("no", no)) if value is None)
        return f"{hidden} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return 1 / (1 + math.exp(min(no - yes, 700.0)))


def true_share(tops: Sequence[Mapping[str, float]]) -> float | str:
    """P("True") at a reply's first position, or that it is not shown."""
    first = tops[0] if tops else {}
    logprob = _together(first, SPELLINGS["True"])
    if logprob is None:
        return f"True not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return math.exp(logprob)


def least_entropies(tops: Sequence[Mapping[str, float]]) -> list[float]:
    """Of each position the part of the entropy (nats) that the tokens shown make up: no term is negative, so the whole is larger."""
    return [-sum(math.exp(p) * p for p in top.values() if p > LEAST_LOGPROB) for top in tops]


def within(prompt: Sequence[Mapping[int, float]], ids: Sequence[int]) -> list[float] | None:
    """Log-probabilities of these tokens where they stand last in a scored prompt; None where they do not stand in it."""
    there = [next(iter(entry), None) for entry in prompt]
    for start in range(len(there) - len(ids), 0, -1):
        if there[start : start + len(ids)] == list(ids):
            return [next(iter(entry.values())) for entry in prompt[start : start + len(ids)]]
    return None


def is_scaled(cold: Mapping[str, float], warm: Mapping[str, float], temperature: float) -> bool:
    """Whether log-probabilities of one position, asked for at temperature 0 and at another, are of the softmax at each temperature.

    They should be of the model's own softmax, whatever is drawn. Told by the distances between tokens, which a temperature divides.
    """
    common = [token for token in cold if warm.get(token, LEAST_LOGPROB) > LEAST_LOGPROB]
    if len(common) < 2:
        return False
    best = max(common, key=lambda token: cold[token])
    gaps = [(cold[best] - cold[token], warm[best] - warm[token]) for token in common if token != best]
    if sum(c for c, _ in gaps) > 2 * sum(w for _, w in gaps) + 1:  # temperature 0 taken at its word: all others are impossible
        return True
    return sum(abs(w - c) for c, w in gaps) > sum(abs(w - c / temperature) for c, w in gaps)


def _choice(raw: Mapping[str, Any]) -> Choice:
    message, finish = raw["message"], raw.get("finish_reason")
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise ValueError
    content = (raw.get("logprobs") or {}).get("content")
    tokens = [str(entry["token"]) for entry in content or ()]
    logprobs = None if content is None else [_number(entry["logprob"]) for entry in content]
    tops = [{str(t["token"]): _number(t["logprob"]) for t in entry.get("top_logprobs") or ()} for entry in content or ()]
    ids = raw.get("token_ids")
    if ids is not None and not all(type(i) is int for i in ids):
        raise ValueError
    ended = finish == "stop" and bool(tokens) and "".join(tokens).strip() == text.strip()
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning is not None and not isinstance(reasoning, str):
        raise ValueError
    spelt = None if content is None else tokens
    return Choice(text.strip(), logprobs, tops, ids, ended, finish == "content_filter", spelt, reasoning, finish == "length")


def _scored(entry: Mapping[str, Any] | None) -> dict[int, float]:
    return {int(token): _number(of["logprob"]) for token, of in (entry or {}).items()}


def _number(value: Any) -> float:
    if type(value) not in (int, float) or value != value:
        raise ValueError
    return float(value)


def _together(first: Mapping[str, float], words: Iterable[str]) -> float | None:
    """Log of the probability of the tokens that are one of these words, spaces aside; None where none is shown."""
    logprobs = [p for token, p in first.items() if token.strip(_SPACES) in words and p > LEAST_LOGPROB]
    if not logprobs:
        return None
    top = max(logprobs)
    return top + math.log(sum(math.exp(p - top) for p in logprobs))


def logprobs_of(choice: Choice) -> list[float]:
    """Return the log-probabilities; raise Stopped where the server gives none."""
    if choice.logprobs is None or (choice.text and not choice.logprobs):
        raise Stopped("the server gives no log-probabilities, which the spec's `logprobs` asks for; expected them as OpenAI gives them")
    return choice.logprobs
