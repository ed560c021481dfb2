"""Replies that a hostile or broken server may send, drawn by a seed: what a toy says, mutated in structure, numbers, text or bytes."""

from __future__ import annotations

import copy
import gzip
import json
import math
import random
from collections.abc import Sequence
from typing import Any

NUMBERS = [
    5.0, 148.0, 1e-6, 1e-4, -0.0, -1e300, 1e300, math.inf, -math.inf, math.nan, -9999.0, 10**400, -(10**400), 2**31, -1, 0, 1, True, "1",
    0.5, -0.5, -2226.0,
]  # fmt: skip
TEXTS = [
    "\ud800", "\udfff a", "\x00", "\x1b]0;owned\x07", "\u202eevil", "x" * 100_000, "", " ", "\ufffe", "é" * 50, "<script>", "NaN", "😀",
    "sk-very-secret-0123456789", "\x9b31m", "\r\n\r\nHTTP/1.1 200 OK",
]  # fmt: skip
THINGS = [None, [], {}, [[]], "", 0, False, {"a": [1]}, [None], "abc", [1, "2"], {"": None}, *NUMBERS[:8], *TEXTS[:4]]
KEYS = [
    "choices", "message", "content", "logprobs", "top_logprobs", "token", "logprob", "usage", "prompt_tokens", "completion_tokens", "index",
    "finish_reason", "token_ids", "prompt_logprobs", "model", "refusal", "error", "",
]  # fmt: skip
STATUSES = [200] * 30 + [100, 201, 204, 206, 301, 302, 307, 400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 599]
Reply = tuple[int, bytes, dict[str, str]]


def draw(rng: random.Random, honest: dict[str, Any]) -> Reply:
    """One reply: status, bytes, headers."""
    answer = copy.deepcopy(honest)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 8])):
        answer = _changed(rng, answer)
    text = json.dumps(answer) if rng.random() > 0.1 else json.dumps(answer, ensure_ascii=False)
    status = rng.choice(STATUSES)
    return _packed(rng, status, _broken(rng, text).encode("utf-8", "surrogatepass"))


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(p for key, item in inner for p in _places(item, (*place, key)))]


def _changed(rng: random.Random, answer: Any) -> Any:
    """One place with another value, gone, twice, or with something beside it."""
    place = rng.choice(_places(answer))
    if not place:
        return _thing(rng) if rng.random() < 0.1 else answer
    *way, last = place
    holder = answer
    for step in way:
        holder = holder[step]
    how = rng.randrange(6)
    if how == 0:
        del holder[last]
    elif how == 1 and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif how == 2 and isinstance(holder, dict):
        holder[rng.choice(KEYS)] = _thing(rng)
    elif isinstance(holder[last], str):
        holder[last] = _thing(rng, TEXTS)
    elif isinstance(holder[last], int | float):
        holder[last] = _thing(rng, [*NUMBERS, rng.uniform(-20, 1)])
    else:
        holder[last] = _thing(rng)
    return answer


def _thing(rng: random.Random, others: Sequence[Any] = ()) -> Any:
    """One of them, a copy: it may be changed again."""
    return copy.deepcopy(rng.choice([*others, *THINGS]))


def _broken(rng: random.Random, text: str) -> str:
    """JSON that is cut, deep, of other numbers than JSON has, or none."""
    how = rng.randrange(20)
    if how == 0:
        return text[: rng.randrange(len(text) + 1)]
    if how == 1:
        return rng.choice(["[", '{"choices":[', '{"a":']) * rng.choice([10, 900, 1100, 100_000])
    if how == 2:
        depth = rng.choice([50, 400, 990])
        return text.replace('"content"', '"deep": ' + "[" * depth + "]" * depth + ', "content"', 1)
    if how == 3:
        return rng.choice(
            ["", "<html>busy</html>", "null", "7", "[]", '"x"', "\ufeff" + text, text + text, text + " \x00", "data: " + text]
        )
    if how == 4:
        return text.replace("-", "", rng.randrange(1, 4))
    if how == 5:
        return text.replace(":", rng.choice([': 1e999, "x":', ": " + "9" * 5000 + ', "x":']), 1)
    return text


def _packed(rng: random.Random, status: int, data: bytes) -> Reply:
    """Bytes as they travel: now and then compressed, chunked, of a false length or in no text's coding."""
    how = rng.randrange(24)
    headers: dict[str, str] = {}
    if how == 0:
        data, headers = gzip.compress(data), {"content-encoding": "gzip"}
    elif how == 1:
        data, headers = gzip.compress(data)[: rng.randrange(1, 40)], {"content-encoding": "gzip"}
    elif how == 2:
        headers = {"content-encoding": rng.choice(["gzip", "br", "deflate", "zstd", "gzip, gzip", "x"])}
    elif how == 3:
        data, headers = gzip.compress(b" " * 4_000_000 + data), {"content-encoding": "gzip"}
    elif how == 4 and data:
        at = rng.randrange(len(data))
        data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    elif how == 5:
        data = data.decode("utf-8", "replace").encode(rng.choice(["utf-16", "latin-1", "utf-32"]), "replace")
    if rng.random() < 0.1:
        headers["retry-after"] = rng.choice(["0", "-5", "nan", "inf", "soon", "1e-3", "Thu, 01 Jan 1970 00:00:00 GMT", "9" * 30 + "x"])
    if 300 <= status < 400:
        headers["location"] = rng.choice(["http://127.0.0.1:9/v1/chat/completions", "//evil", "\x1b[31m", ""])
    return status, data, headers
