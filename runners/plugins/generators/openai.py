"""Any OpenAI-compatible server as a generator: OpenAI itself, vLLM, SGLang, `transformers serve`. See `qualm.runners.servers.client`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from qualm.runners.contracts.generators import ChatRequest, GeneratorContext, GeneratorError, Message, Reply
from qualm.runners.servers.client import Client, Rejected, ServerError, Stopped
from qualm.runners.servers.protocol import Nonsense, data_url, shown, used
from qualm.runners.servers.replies import CUT

SERVER = "base_url"
"""The parameter that names a server: `qualm plan` looks it up in the local settings."""


def openai(
    context: GeneratorContext,
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    sampling: bool = True,
) -> OpenAI:
    """Chat completions of a server that speaks OpenAI's protocol; keys, limits and prices stand in qualm.toml (docs/how-to/servers.md).

    Args:
        model: as the server names it. A name that is moved to another model is not noticed: name a dated one.
        base_url: up to and with `/v1`.
        limit_name: what the server calls the longest reply; newer models of OpenAI say `max_completion_tokens`.
        sampling: send temperature and seed, which some models refuse.

    Raises:
        GeneratorError: the address is not valid or holds a secret.
    """
    try:
        client = Client("openai", model, base_url, context.settings.server(base_url, model))
    except ValueError as error:
        raise GeneratorError(f"generator openai: {error}") from None
    return OpenAI(client, limit_name, sampling)


class OpenAI:
    """See `qualm.runners.contracts.generators.GeneratorEngine`."""

    def __init__(self, client: Client, limit_name: str, sampling: bool) -> None:
        self.client, self.limit_name, self.sampling = client, limit_name, sampling
        self.name = client.name
        self.identity = json.dumps(["openai", client.base_url, client.model, sampling])

    @property
    def counters(self) -> Counter[str]:
        return self.client.counters

    def answer(self, requests: Sequence[ChatRequest]) -> Iterator[list[tuple[int, Reply]]]:
        try:
            yield from self.client.pooled(requests, self._ask)
        except (ServerError, Stopped) as error:
            raise GeneratorError(str(error)) from None

    def _ask(self, request: ChatRequest) -> Iterator[Reply]:
        try:
            yield self.client.ask(self._body(request), _read)
        except Rejected as error:
            yield Reply(None, "rejected", error=str(error))

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        own = {"temperature": request.temperature, "seed": request.seed} if self.sampling else {}
        turns = [_turn(m) for m in request.messages]
        return {"model": self.client.model, "messages": turns, self.limit_name: request.max_new_tokens, **own}


def _turn(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    pictures = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images]
    return {"role": message.role, "content": [*pictures, {"type": "text", "text": message.text}]}


def _read(answer: dict[str, Any]) -> Reply:
    """The reply in a server's answer.

    Raises:
        Nonsense: it is none.
        Rejected: the server's filter held it back.
    """
    try:
        choice = answer["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text = message.get("content") or message.get("refusal") or ""
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Nonsense(f"expected a chat completion, got {shown(json.dumps(answer))}") from None
    if not isinstance(text, str):
        raise Nonsense(f"expected a chat completion, got {shown(json.dumps(answer))}")
    if finish == "content_filter":
        raise Rejected("the server's content filter held the reply back")
    return Reply(text.strip(), "length" if finish in CUT else "stop", *used(answer))
