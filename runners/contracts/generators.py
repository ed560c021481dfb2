"""Requests, replies and engines of text generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from qualm.runners.runtime.settings import Settings


class GeneratorError(Exception):
    """Error that a generator cannot be opened, or fails; earlier replies are kept."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[bytes, ...] = ()
    """Images as encoded bytes (PNG, JPEG...), shown before the text."""


def chat(text: str, *images: bytes) -> list[Message]:
    """Return a list of one user message that shows the images, then the text."""
    return [Message("user", text, images)]


@dataclass(frozen=True)
class ChatRequest:
    """A conversation to answer, with decoding settings and seed."""

    messages: tuple[Message, ...]
    max_new_tokens: int
    temperature: float
    """0 = greedy; above 0 = sampling temperature."""
    seed: int
    schema: str = ""
    """JSON Schema of the reply; "" = text. Only `structured` engines get one, and not all comply."""


@dataclass(frozen=True)
class GeneratorContext:
    settings: Settings = field(default_factory=Settings)


@runtime_checkable
class GeneratorEngine(Protocol):
    """A text generator that answers conversations."""

    identity: str
    """Digest, or name and address, of what replies depend on beside the request."""
    name: str

    def answer(self, requests: Sequence[ChatRequest]) -> Iterator[list[tuple[int, Reply]]]:
        """Yield batches of (index of the request, reply); raise GeneratorError on failure."""


@runtime_checkable
class Composer(Protocol):
    """Generator of contrastive questions by rules on a scene graph, without a model."""

    def compose(self, scene: Mapping[str, Any], category: str, rng: Any) -> Any:
        """Return a contrastive pair of a category for a scene; None if the scene offers none."""

    def decline(self, category: str, question: str, rng: Any) -> str:
        """Return the abstention that answers an unanswerable question of a category."""


@runtime_checkable
class Rewriter(Protocol):
    """A generator that rewrites questions about scenes."""

    def rewrite(self, kind: str, question: str, scene: Mapping[str, Any] | None, rng: Any) -> Any:
        """Return a `Rewrite` of the question by `kind` (inv, sbj, amb, ive); None if impossible."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A generator's reply, with the reason why it ended and token counts."""

    text: str | None
    """None if the request cannot be answered, even if repeated."""
    finish: str = "stop"
    """`stop`: it ended by itself. `length`: cut at the limit. `no text`: a reply that is paid for, without one. `rejected`: no reply."""
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    error: str | None = None


class NoPairError(Exception):
    """Error that a reply gives no pair; the message is a short reason, which is counted."""
