"""Requests to the small server, the client that sends them, and what it gets."""

from __future__ import annotations

from typing import Any

from qualm.runners.runtime.server_config import Server
from qualm.runners.servers.client import Client
from qualm.runners.servers.replies import Completion


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 4, **more}


def line(url: str, **more: Any) -> Client:
    return Client("test", "m", url, Server(**{"retries": 0, "pause": 0.01, "concurrency": 2, **more}))


def text_of(completion: Completion) -> str:
    return completion.choices[0].text
