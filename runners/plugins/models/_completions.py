"""Chat completions of a server: text, log-probabilities of its tokens, and of the likeliest alternatives.

A server shows only the `top_logprobs` likeliest tokens of each position. A value that needs another token is undefined.
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
"""Characters that may precede a word in a token, also as tokenizers spell them."""


@dataclass(frozen=True)
class Choice:
    """One answer of a completion."""

    text: str
    logprobs: list[float] | None
    """Of its tokens, if requested."""
    tops: list[dict[str, float]]
    """Likeliest tokens of each position with their log-probabilities."""
    ids: list[int] | None
    """Ids of its tokens, if the server shows them."""
    ended: bool
    """It ended by itself, with the end token not shown."""
    filtered: bool
    """The server's filter held it back."""
    tokens: list[str] | None = None
    """Its tokens as text, if log-probabilities were requested."""
    reasoning: str | None = None
    """Thinking before the answer, if the server separates it."""
    cut: bool = False
    """It ended at the length limit."""


@dataclass(frozen=True)
class Completion:
    choices: list[Choice]
    prompt: list[dict[int, float]] | None
    """(id, log-probability) of every prompt token, if the server shows them."""
    served: tuple[str, str]
    """(model, fingerprint) according to the server."""


def read(answer: Mapping[str, Any]) -> Completion:
    """Parse a reply; raise Nonsense if malformed."""
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
    """Parse a reply of one choice; raise Nonsense if malformed, Rejected if filtered."""
    completion = read(answer)
    if completion.choices[0].filtered:
        raise Rejected("the server's content filter held the answer back")
    return completion


def option_logits(tops: Sequence[Mapping[str, float]], n: int) -> list[float] | str:
    """Return n letters' log-probabilities at an answer's start, or which are not shown."""
    first = tops[0] if tops else {}
    values = [_summed_logprob(first, (letter,)) for letter in LETTERS[:n]]
    hidden = [letter for letter, value in zip(LETTERS, values, strict=False) if value is None]
    if hidden:
        return f"{', '.join(hidden)} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return [value for value in values if value is not None]


def yes_share(tops: Sequence[Mapping[str, float]]) -> float | str:
    """Compute P(yes) / (P(yes) + P(no)) at a reply's start, or return which is not shown."""
    first = tops[0] if tops else {}
    yes, no = (_summed_logprob(first, SPELLINGS[word]) for word in ("yes", "no"))
    if yes is None or no is None:
        hidden = " and ".join(word for word, value in (("yes", yes), ("no", no)) if value is None)
        return f"{hidden} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return 1 / (1 + math.exp(min(no - yes, 700.0)))


def true_share(tops: Sequence[Mapping[str, float]]) -> float | str:
    """Compute P("True") at a reply's first position, or return that it is not shown."""
    first = tops[0] if tops else {}
    logprob = _summed_logprob(first, SPELLINGS["True"])
    if logprob is None:
        return f"True not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return math.exp(logprob)


def least_entropies(tops: Sequence[Mapping[str, float]]) -> list[float]:
    """Compute the shown tokens' part of each position's entropy in nats, a lower bound."""
    return [-sum(math.exp(p) * p for p in top.values() if p > LEAST_LOGPROB) for top in tops]


def within(prompt: Sequence[Mapping[int, float]], ids: Sequence[int]) -> list[float] | None:
    """Return these tokens' log-probabilities where they occur last in a prompt, or None."""
    there = [next(iter(entry), None) for entry in prompt]
    for start in range(len(there) - len(ids), 0, -1):
        if there[start : start + len(ids)] == list(ids):
            return [next(iter(entry.values())) for entry in prompt[start : start + len(ids)]]
    return None


def is_scaled(cold: Mapping[str, float], warm: Mapping[str, float], temperature: float) -> bool:
    """Return whether log-probabilities depend on the temperature, by one position at two.

    They should be of the model's own softmax. A temperature divides the distances between tokens.
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


def _summed_logprob(first: Mapping[str, float], words: Iterable[str]) -> float | None:
    """Return the log-probability of these words, spaces aside; None if no such token is shown."""
    logprobs = [p for token, p in first.items() if token.strip(_SPACES) in words and p > LEAST_LOGPROB]
    if not logprobs:
        return None
    top = max(logprobs)
    return top + math.log(sum(math.exp(p - top) for p in logprobs))


def logprobs_of(choice: Choice) -> list[float]:
    """Return the log-probabilities; raise Stopped if the server gives none."""
    if choice.logprobs is None or (choice.text and not choice.logprobs):
        raise Stopped("the server gives no log-probabilities, which the spec's `logprobs` asks for; expected them as OpenAI gives them")
    return choice.logprobs
