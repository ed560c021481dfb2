"""Text generators: models or rules that answer a prompt with text, with pictures where they can see.

A generator plugin is one file here holding one function of the file's name. It returns an object of one of two kinds:

    def hf(context: GeneratorContext, *, artifact: Artifact, ...) -> GeneratorEngine: ...            # answers chats
    def rules(context: GeneratorContext, *, refusals: ... = "all") -> Composer: ...         # writes pairs about scenes, asked nothing

A plugin that needs texts names a generator in a parameter `Annotated[Chosen, Kind("generators")]` and opens it here:

    generator = open_generator(chosen, context.settings)
    replies = generator.complete([chat("What is in the picture?", png)], max_new_tokens=32)

What is answered is kept by content in `.qualm/replies`, so that a killed run goes on and a rerun costs nothing. What every
`GeneratorEngine` keeps:

- `identity` changes whenever anything changes that its replies depend on; nothing secret is in it.
- Building the object loads no weights and sends nothing: the first request does.
- A reply depends on its own request alone, whatever else is in the batch. One seed gives one reply, where the other side allows.
- It hands over what is done as soon as it is done: what it raises later takes nothing of that away.
- An engine that can hold replies to a JSON Schema says `structured = True`; others are never sent one.
- A request that cannot be answered is a `Reply` without text that says why; a server or model that fails is a `GeneratorError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from qualm.runners.runtime.settings import Settings


class GeneratorError(Exception):
    """A generator that cannot be opened or fails. The message says which, why, and what to do; what was answered is kept."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[bytes, ...] = ()
    """Pictures as they lie on disk (PNG, JPEG...), shown before the text."""


def chat(text: str, *images: bytes) -> list[Message]:
    """The conversation of one question."""
    return [Message("user", text, images)]


@dataclass(frozen=True)
class ChatRequest:
    messages: tuple[Message, ...]
    max_new_tokens: int
    temperature: float
    """0: the likeliest text. Above: drawn from the distribution at that temperature."""
    seed: int
    schema: str = ""
    """JSON Schema of an object that the reply is to be; "" = text. Only engines that are `structured` get one, and not all keep to it."""


@dataclass(frozen=True)
class GeneratorContext:
    """What a generator plugin is handed beside the spec's parameters."""

    settings: Settings = field(default_factory=Settings)


@runtime_checkable
class GeneratorEngine(Protocol):
    """Something that answers chats."""

    identity: str
    """What the replies depend on beside the request: a digest, or a name and address."""
    name: str
    """For messages to people."""

    def answer(self, requests: Sequence[ChatRequest]) -> Iterator[list[tuple[int, Reply]]]:
        """Yield replies with their requests' places, each once; GeneratorError if it cannot go on."""


@runtime_checkable
class Composer(Protocol):
    """Something that writes pairs of questions about a scene, and is asked nothing."""

    def compose(self, scene: Mapping[str, Any], category: str, rng: Any) -> Any:
        """A pair of one category, None where the scene offers none."""

    def decline(self, category: str, question: str, rng: Any) -> str:
        """How an unanswerable question of a category is declined."""


@runtime_checkable
class Rewriter(Protocol):
    """Something that rewrites questions about scenes, and is asked nothing."""

    def rewrite(self, kind: str, question: str, scene: Mapping[str, Any] | None, rng: Any) -> Any:
        """A question that is invalid, subjective, ambiguous or lacks evidence; None where there is none."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    text: str | None
    """None where the request cannot be answered, however often it is asked."""
    finish: str = "stop"
    """`stop`: it ended by itself. `length`: cut at the limit. `rejected`: no text."""
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    error: str | None = None
    """Why there is no text."""


class UnusableReply(Exception):
    """A reply that no pair can be made of. The message is the reason, short, as it is counted."""
