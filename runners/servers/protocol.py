"""Chat completions of OpenAI's protocol as data: what a request can cost, what a reply says it did, pictures as URLs."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from qualm.registry.text import one_line

MOST_TOKENS = 10_000_000
"""Of a request or a reply: more than any model reads."""
IMAGE_TOKENS = 2048
"""What a picture is taken to cost at most before the server has said."""


class Nonsense(Exception):
    """An invalid reply: the message says what was expected, and what came."""


class Impossible(Nonsense):
    """A reply that says what cannot be, and most likely would again."""


class NoReply(Nonsense):
    """A page of whatever stands between us and the server."""


def bounds(body: Mapping[str, Any]) -> tuple[int, int]:
    """How many tokens a request can send and be answered with at most: a token has at least one byte."""
    sent = 0
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        sent += 16 + sum(len(p["text"].encode()) if p["type"] == "text" else IMAGE_TOKENS for p in parts)
    sent += len(json.dumps(body["response_format"]).encode()) if "response_format" in body else 0
    longest = next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), 0)
    return sent, longest * body.get("n", 1)


def used(answer: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return a reply's counts of tokens, None without any; raise Nonsense for invalid ones."""
    usage = answer.get("usage") or {}
    counts = [usage.get(name) if isinstance(usage, Mapping) else usage for name in ("prompt_tokens", "completion_tokens")]
    if not all(c is None or type(c) is int for c in counts):
        raise Nonsense(f"expected counts of tokens, got {excerpt(str(usage))}")
    return counts[0], counts[1]


def is_count(value: Any, most: int = MOST_TOKENS) -> bool:
    """Whether a value is a plain number of tokens."""
    return type(value) is int and 0 <= value <= most


def excerpt(text: str) -> str:
    """A server's words on one line."""
    plain = one_line(" ".join(text.split()))
    return f"{plain[:200]}..." if len(plain) > 200 else plain or "nothing"


def data_url(image: bytes) -> str:
    """A picture file as a URL that holds it."""
    kinds = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    kind = next((name for start, name in kinds.items() if image.startswith(start)), "png")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
