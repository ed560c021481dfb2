"""Checks whether a chat completion is possible. Every reply of every server passes here before it is read.

A reply that fails costs the part of the sample's answer that it was for: that is undefined, with the reason, and never a number. Sizes,
time and hosts are `qualm.runners.servers.transport`'s; numbers as they are stored, `qualm.runners.store.sound`'s.

What is let pass, since honest servers round: a log-probability up to `SLACK` above 0, which counts as 0; probabilities of one position
that add up to `SUM_SLACK` more than 1; a token whose log-probability differs by `APART` from the one it has among the likeliest.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qualm.registry.formats.plausible import SLACK, SUM_SLACK
from qualm.runners.servers.protocol import MOST_TOKENS, Impossible, Nonsense, NoReply, bounds, excerpt, is_count

APART = 0.01
LAST_ID = 2**31 - 1
LONGEST_NAME = 1000
_LEAST = 1e300
ENDED = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call")
CUT = ("length", "max_tokens", "model_length")
FINISHES = (*ENDED, *CUT, "content_filter")
"""Reasons to end an answer. Others (abort, error) are of answers that are not whole, or that we do not know how to take."""
_BASE, _TOKEN = 2**20, 512
"""Bytes of a reply: beside its tokens, and for each token and each of the likeliest in its place."""


def longest(body: Mapping[str, Any]) -> int:
    """Bytes that an honest reply to a request has at most."""
    sent, received = bounds(body)
    tokens = received * (1 + body.get("top_logprobs", 0)) + (sent if "prompt_logprobs" in body else 0)
    return int(_BASE + _TOKEN * tokens)


def parsed(data: bytes) -> dict[str, Any]:
    """Parse a reply's JSON.

    Raises:
        NoReply: it is no JSON at all, as a page of a proxy.
        Nonsense: it is cut off, or has no choices.
    """
    try:
        text = data.decode("utf-8-sig")
        answer = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        kind = Impossible if data.lstrip()[:1] in (b"{", b"[") else NoReply
        raise kind(f"expected a chat completion, got {excerpt(data[:1000].decode('utf-8', 'replace'))}") from None
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not choices or not isinstance(choices, list):
        raise Nonsense(f"expected a chat completion, got {excerpt(text[:1000])}")
    assert isinstance(answer, dict)
    if "\\ud" in text.lower():
        try:
            json.dumps(answer, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise Impossible("expected text, got half a surrogate pair") from None
    return answer


def check(answer: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Hold a reply to what was asked, and round what is above 0 by rounding.

    Raises:
        Impossible: what is wrong, and where.
    """
    for name in ("model", "system_fingerprint"):
        _expect(_is_text(answer.get(name)) and len(answer.get(name) or "") <= LONGEST_NAME, name, "a name", answer.get(name))
    _check_usage(answer.get("usage"))
    choices, most = answer["choices"], body.get("n", 1)
    _expect(len(choices) <= most, "choices", f"a list of 1 to {most}", choices)
    places: list[Any] = []
    for at, choice in enumerate(choices):
        where = f"choices[{at}]"
        _expect(isinstance(choice, dict), where, "an object", choice)
        place = choice.get("index")
        _expect(
            place is None or (is_count(place, most - 1) and place not in places), f"{where}.index", f"one of 0 to {most - 1}, once", place
        )
        places += [] if place is None else [place]
        _check_choice(choice, where)
    for at, entry in enumerate(_list(answer.get("prompt_logprobs"), "prompt_logprobs")):
        _check_scored(entry, f"prompt_logprobs[{at}]")


def _check_usage(usage: Any) -> None:
    _expect(usage is None or isinstance(usage, dict), "usage", "an object", usage)
    for name in ("prompt_tokens", "completion_tokens"):
        count = (usage or {}).get(name)
        _expect(count is None or is_count(count), f"usage.{name}", f"a count of at most {MOST_TOKENS:,}", count)


def _check_choice(choice: Mapping[str, Any], where: str) -> None:
    message, finish = choice.get("message"), choice.get("finish_reason")
    _expect(isinstance(message, dict), f"{where}.message", "an object", message)
    assert isinstance(message, dict)
    for name in ("content", "refusal"):
        _expect(_is_text(message.get(name)), f"{where}.message.{name}", "a text", message.get(name))
    _expect(finish is None or finish in FINISHES, f"{where}.finish_reason", f"one of {', '.join(FINISHES)}", finish)
    ids = choice.get("token_ids")
    _expect(ids is None or (isinstance(ids, list) and all(is_count(i, LAST_ID) for i in ids)), f"{where}.token_ids", "a list of ids", ids)
    shares = choice.get("logprobs")
    _expect(shares is None or isinstance(shares, dict), f"{where}.logprobs", "an object", shares)
    if shares is None or shares.get("content") is None:
        return
    entries = _list(shares["content"], f"{where}.logprobs.content")
    for at, entry in enumerate(entries):
        _check_entry(entry, f"{where}.logprobs.content[{at}]")
    if ids is not None:
        _expect(0 <= len(ids) - len(entries) <= 1, f"{where}.logprobs.content", f"as many as the {len(ids)} token_ids", len(entries))
    text, letters = (message.get("content") or "").strip(), sum(len(entry["token"]) for entry in entries)
    _expect(not entries or len(text) <= letters, f"{where}.logprobs.content", f"tokens of all {len(text)} characters", letters)


def _check_entry(entry: Any, where: str) -> None:
    """A token, and the likeliest in its place: together no likelier than certain, and each as likely in one place as in the other."""
    own = _check_token(entry, where)
    listed = _list(entry.get("top_logprobs"), f"{where}.top_logprobs")
    tops = {(_check_token(top, f"{where}.top_logprobs[{at}]"), top["token"]) for at, top in enumerate(listed)}
    same = [p for p, token in tops if token == entry["token"]] or [p for p, _ in tops if _near(own, p)]
    _check_sum([*(p for p, _ in tops), *(() if same else (own,))], where)
    if same:  # a special token may be spelled in two ways
        _expect(any(_near(own, p) for p in same), f"{where}.logprob", f"{max(same)} as among the likeliest", own)
    elif tops:
        least = min(p for p, _ in tops)
        _expect(own <= least, f"{where}.logprob", f"at most {least}, as it is not among the likeliest", own)


def _check_token(entry: Any, where: str) -> float:
    """The log-probability of an entry, rounded."""
    _expect(isinstance(entry, dict) and isinstance(entry.get("token"), str), f"{where}.token", "a text", entry)
    return _check_logprob(entry, where)


def _check_logprob(entry: dict[str, Any], where: str) -> float:
    value: Any = entry.get("logprob")
    _expect(type(value) in (int, float) and -_LEAST <= value <= SLACK, f"{where}.logprob", "a log-probability (0 or less)", value)
    entry["logprob"] = min(float(value), 0.0)
    return float(entry["logprob"])


def _check_scored(entry: Any, where: str) -> None:
    _expect(entry is None or isinstance(entry, dict), where, "an object", entry)
    logprobs = []
    for token, of in (entry or {}).items():
        _expect(token.isascii() and token.isdecimal() and len(token) <= 10 and int(token) <= LAST_ID, where, "ids of tokens", token)
        _expect(isinstance(of, dict), f"{where}.{token}", "an object", of)
        logprobs.append(_check_logprob(of, f"{where}.{token}"))
    _check_sum(logprobs, where)


def _check_sum(logprobs: Sequence[float], where: str) -> None:
    total = math.fsum(math.exp(p) for p in logprobs)
    _expect(total <= 1 + SUM_SLACK, where, "probabilities that add up to 1 at most", round(total, 4))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= APART * max(1.0, abs(one))


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _list(value: Any, where: str) -> list[Any]:
    """A list; an empty one for nothing."""
    _expect(value is None or isinstance(value, list), where, "a list", value)
    return value or []


def _expect(holds: bool, where: str, expected: str, value: Any) -> None:
    if not holds:
        raise Impossible(f"{where}: expected {expected}, got {_quoted(value)}")


def _quoted(value: Any) -> str:
    """A value in a message: of what holds others, only what it is."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if type(value) is int and abs(value) >= 10**20:
        return f"an integer of {value.bit_length()} bits"
    return "nothing" if value is None else excerpt(json.dumps(value))


def _refused(name: str) -> Iterator[None]:
    raise ValueError(name)
