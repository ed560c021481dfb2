"""Chat completions of OpenAI's protocol as data: token bounds, usage, images as URLs."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from qualm.registry.text import one_line

MAX_TOKENS = 10_000_000
"""Maximum tokens of a request or reply; no model reads more."""
IMAGE_TOKENS = 2048
"""Maximum tokens of an image before the server reports its count."""


class InvalidReplyError(Exception):
    """An invalid reply; the message says what was expected and what came."""


class ImpossibleReplyError(InvalidReplyError):
    """An invalid reply that the server would most likely repeat."""


class ReplyTooLargeError(ImpossibleReplyError):
    """A reply larger than the byte limit; the next one would be as large, and cost as much."""


class NotAReplyError(InvalidReplyError):
    """A page of a proxy or gateway instead of a reply."""


def token_bounds(body: Mapping[str, Any]) -> tuple[int, int]:
    """Return the maximum tokens of a request and of its reply, (sent, received)."""
    sent = 0
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        sent += 16 + sum(len(p["text"].encode()) if p["type"] == "text" else IMAGE_TOKENS for p in parts)
    sent += len(json.dumps(body["response_format"]).encode()) if "response_format" in body else 0
    return sent, answer_limit(body) * body.get("n", 1)


def answer_limit(body: Mapping[str, Any]) -> int:
    """Return the token limit of each answer in a request body; 0 if it has none."""
    return int(next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), 0))


def read_usage(reply: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the (sent, received) tokens that a reply reports; None for each missing count.

    >>> read_usage({"usage": {"prompt_tokens": 10.0, "completion_tokens": -1}}), read_usage({"usage": None})
    ((10, None), (None, None))
    """
    usage = reply.get("usage")
    counts = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    counts = [int(c) if isinstance(c, float) and c.is_integer() else c for c in counts]
    sent, received = (c if is_count(c) else None for c in counts)
    return sent, received


def is_count(value: Any, maximum: int = MAX_TOKENS) -> bool:
    """Return whether a value is an int, not a bool, from 0 to `maximum`."""
    return type(value) is int and 0 <= value <= maximum


def excerpt(text: str) -> str:
    """Shorten a text to one line of 200 characters and an ellipsis; return "nothing" if empty."""
    plain = one_line(" ".join(text.split()))
    return f"{plain[:200]}..." if len(plain) > 200 else plain or "nothing"


def data_url(image: bytes) -> str:
    """Return an encoded image (PNG, JPEG...) as a data URL."""
    kinds = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}
    kind = next((name for start, name in kinds.items() if image.startswith(start)), "png")
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
