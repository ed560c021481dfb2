"""Numbers from the likeliest tokens that a server shows.

A server shows only the `top_logprobs` likeliest tokens of each position. A value that needs another token is undefined.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from qualm.registry import LETTERS
from qualm.registry.formats.plausible import MIN_LOGPROB
from qualm.runners.inference.hf.own_answer import SPELLINGS

_SPACES = " \t\n\u2581\u0120"
"""Characters that may precede a word in a token, also as tokenizers spell them."""


def option_logits(tops: Sequence[Mapping[str, float]], n: int) -> list[float] | str:
    """Return log-probabilities of n option letters at a reply's start, or why one is hidden."""
    first = tops[0] if tops else {}
    values = [_summed_logprob(first, (letter,)) for letter in LETTERS[:n]]
    hidden = [letter for letter, value in zip(LETTERS, values, strict=False) if value is None]
    if hidden:
        return f"{', '.join(hidden)} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return [value for value in values if value is not None]


def yes_share(tops: Sequence[Mapping[str, float]]) -> float | str:
    """Return P(yes) / (P(yes) + P(no)) at a reply's start; a reason as text if one is hidden."""
    first = tops[0] if tops else {}
    yes, no = (_summed_logprob(first, SPELLINGS[word]) for word in ("yes", "no"))
    if yes is None or no is None:
        hidden = " and ".join(word for word, value in (("yes", yes), ("no", no)) if value is None)
        return f"{hidden} not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return 1 / (1 + math.exp(min(no - yes, 700.0)))


def true_probability(tops: Sequence[Mapping[str, float]]) -> float | str:
    """Return the probability of "True" as first token, not relative to "False"; else a reason."""
    first = tops[0] if tops else {}
    logprob = _summed_logprob(first, SPELLINGS["True"])
    if logprob is None:
        return f"True not among the {len(first)} likeliest first tokens; a larger `logprobs` shows more"
    return min(1.0, math.exp(logprob))  # servers round log-probabilities


def entropy_lower_bounds(tops: Sequence[Mapping[str, float]]) -> list[float]:
    """Return a lower bound of each position's entropy in nats, from the tokens shown."""
    return [-sum(math.exp(p) * p for p in top.values() if p > MIN_LOGPROB) for top in tops]


def likeliest(
    tops: Sequence[Mapping[str, float]], logprobs: Sequence[float] | None, tokens: Sequence[str], max_k: int
) -> list[list[tuple[str, float]]] | str:
    """Return each position's likeliest (token, log-probability) pairs; a reason if under two.

    Every position has the same number of pairs: at most `max_k`, and no more than any position shows.

    Args:
        tops: of each position.
        logprobs: of the answer's tokens.
        tokens: texts that end with those of the answer's tokens, which come before others as likely; may be empty.
        max_k: the most of each position.
    """
    if not tops or logprobs is None or len(tops) != len(logprobs):
        return "the reply has no likeliest tokens for each token of the answer"
    k = min(max_k, *map(len, tops))
    if k < 2:
        return "the reply shows fewer than two likeliest tokens at a position"
    answer = tokens[-len(tops) :] if len(tokens) >= len(tops) else [""] * len(tops)
    return [sorted(top.items(), key=lambda item: (-item[1], item[0] != own))[:k] for top, own in zip(tops, answer, strict=True)]


def logprobs_in_prompt(prompt: Sequence[Mapping[int, float]], ids: Sequence[int]) -> list[float] | None:
    """Return the log-probabilities of tokens at their last place in a prompt; None if absent."""
    there = [next(iter(entry), None) for entry in prompt]
    for start in range(len(there) - len(ids), 0, -1):
        if there[start : start + len(ids)] == list(ids):
            return [next(iter(entry.values())) for entry in prompt[start : start + len(ids)]]
    return None


def depends_on_temperature(cold: Mapping[str, float], warm: Mapping[str, float], temperature: float) -> bool:
    """Return true if log-probabilities, here `cold` and `warm`, depend on the temperature.

    They should be of the model's own softmax. A temperature divides the distances between tokens.
    """
    common = [token for token in cold if warm.get(token, MIN_LOGPROB) > MIN_LOGPROB]
    if len(common) < 2:
        return False
    best = max(common, key=lambda token: cold[token])
    gaps = [(cold[best] - cold[token], warm[best] - warm[token]) for token in common if token != best]
    if sum(c for c, _ in gaps) > 2 * sum(w for _, w in gaps) + 1:  # temperature 0 taken at its word: all others are impossible
        return True
    return sum(abs(w - c) for c, w in gaps) > sum(abs(w - c / temperature) for c, w in gaps)


def _summed_logprob(first_token_logprobs: Mapping[str, float], words: Iterable[str]) -> float | None:
    """Return the log of the words' summed probability; None if no such token is shown."""
    logprobs = [p for token, p in first_token_logprobs.items() if token.strip(_SPACES) in words and p > MIN_LOGPROB]
    if not logprobs:
        return None
    top = max(logprobs)
    return top + math.log(sum(math.exp(p - top) for p in logprobs))
