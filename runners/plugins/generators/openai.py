"""OpenAI-compatible servers as generators: OpenAI, vLLM, SGLang, `transformers serve`. See `qualm.runners.servers.client`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from qualm.registry import HELD_BACK, OVER_LIMIT
from qualm.registry.formats.pictures import PictureError, to_displayable
from qualm.runners.contracts.generators import ChatRequest, GeneratorContext, GeneratorError, Message, Reply
from qualm.runners.servers.client import Client, FatalRequestError, RequestRejectedError, ServerError, UnusableReplyError
from qualm.runners.servers.protocol import data_url
from qualm.runners.servers.replies import Completion

STRUCTURED = ("api.openai.com",)
"""Hosts that support JSON Schemas; their models that do not are asked for text."""
SERVER = "base_url"
"""Parameter with the server's address."""


def openai(
    context: GeneratorContext,
    *,
    model: str,
    base_url: str = "https://api.openai.com/v1",
    limit_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    sampling: bool = True,
    structured: Literal["json_schema", "no"] | None = None,
) -> OpenAI:
    """Return a generator on a server with OpenAI's protocol (docs/how-to/servers.md).

    Args:
        model: as the server names it. Use a dated name: a change of the model behind a name goes unnoticed.
        base_url: up to and with `/v1`.
        limit_name: the server's name for the greatest length of a reply; newer models of OpenAI say `max_completion_tokens`.
        sampling: send temperature and seed, which some models refuse.
        structured: `json_schema`: pairs and names of objects are requested as a JSON object (`response_format`); as text if the server
            refuses. By default at api.openai.com only.

    Raises:
        GeneratorError: the address is not valid or holds a secret.
    """
    try:
        client = Client("openai", model, base_url, context.settings.server(base_url, model))
    except ValueError as error:
        raise GeneratorError(f"generator openai: {error}") from None
    holds = structured == "json_schema" or (structured is None and urlsplit(base_url).hostname in STRUCTURED)
    return OpenAI(client, limit_name, sampling, holds)


class OpenAI:
    """A text generator behind an OpenAI-compatible server (`GeneratorEngine`)."""

    def __init__(self, client: Client, limit_name: str, sampling: bool, structured: bool = False) -> None:
        self.client, self.limit_name, self.sampling, self.structured = client, limit_name, sampling, structured
        self._holds: bool | None = None
        """True if the server supports schemas; None before its first answer to one."""
        self.name = client.name
        self.identity = json.dumps(["openai", client.base_url, client.model, sampling])

    @property
    def counters(self) -> Counter[str]:
        return self.client.counters

    def answer(self, requests: Sequence[ChatRequest]) -> Iterator[list[tuple[int, Reply]]]:
        try:
            yield from self.client.pooled(requests, self._ask)
        except (ServerError, FatalRequestError) as error:
            raise GeneratorError(str(error)) from None

    def _ask(self, request: ChatRequest) -> Iterator[Reply]:
        try:
            yield self._structured(request) if request.schema and self._holds is not False else self._plain(request)
        except RequestRejectedError as error:
            yield Reply(None, "rejected", error=str(error))

    def _structured(self, request: ChatRequest) -> Reply:
        """Return a reply by the JSON Schema, or a plain one if the server rejects schemas.

        Once the server has accepted a schema, its rejection of a request is raised.
        """
        try:
            reply = _read(self.client.ask({**self._body(request), "response_format": _format(request.schema)}))
        except UnusableReplyError:
            raise
        except RequestRejectedError:
            if self._holds:
                raise
            reply = self._plain(request)
            if self._holds is None:  # not if another thread has meanwhile been answered: then it was the text, not the schema
                self._holds = False
                self.counters["schemas refused"] += 1
            return reply
        self._holds = True
        return reply

    def _plain(self, request: ChatRequest) -> Reply:
        return _read(self.client.ask(self._body(request)))

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        own = {"temperature": request.temperature, "seed": request.seed} if self.sampling else {}
        turns = [_turn(m) for m in request.messages]
        return {"model": self.client.model, "messages": turns, self.limit_name: request.max_new_tokens, **own}


def _format(schema: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "parts", "strict": True, "schema": json.loads(schema)}}


def _turn(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    try:
        pictures = [{"type": "image_url", "image_url": {"url": data_url(to_displayable(image))}} for image in message.images]
    except PictureError as error:
        raise GeneratorError(f"an image of the request cannot be decoded: {error}") from error
    return {"role": message.role, "content": [*pictures, {"type": "text", "text": message.text}]}


def _read(completion: Completion) -> Reply:
    choice = completion.choices[0]
    why = OVER_LIMIT if choice.too_long else choice.unreadable or (HELD_BACK if choice.filtered and not choice.text else "")
    if why:
        return Reply(None, "no text", *completion.usage, error=why)
    return Reply(choice.text, "length" if choice.cut else "stop", *completion.usage)
