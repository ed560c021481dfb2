"""Text generators: what writes a text when it is asked in words, with pictures beside them where it can see.

A generator plugin is one file here holding one function of the file's name. It returns an object of one of two kinds:

    def hf(context: GeneratorContext, *, artifact: Artifact, ...) -> Engine: ...            # answers chats
    def rules(context: GeneratorContext, *, refusals: ... = "all") -> Composer: ...         # writes pairs about scenes, asked nothing

Whoever needs texts names a generator in a parameter `Annotated[Chosen, Kind("generators")]` and opens it here:

    generator = open_generator(chosen, context.settings)
    replies = generator.complete([chat("What is in the picture?", png)], max_new_tokens=32)

What is answered is kept by content in `.qualm/replies`, so that a killed run goes on and a rerun costs nothing. What every
`Engine` keeps:

- `identity` changes whenever anything changes that its replies depend on; nothing secret is in it.
- Building the object loads no weights and sends nothing: the first request does.
- A reply depends on its own request alone, whatever else is in the batch. One seed gives one reply, where the other side allows.
- It hands over what is done as soon as it is done: what it raises later takes nothing of that away.
- A request that cannot be answered is a `Reply` without text that says why; a server or model that fails is a `GeneratorError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from registry.plugins import load_chosen
from runners.generators._replies import Replies, Reply, request_key
from runners.progress import progress
from runners.settings import Settings

__all__ = [
    "CACHE", "Chat", "Composer", "Engine", "Generator", "GeneratorContext", "GeneratorError", "Message", "Reply", "Request", "Rewriter",
    "chat", "open_engine", "open_generator",
]  # fmt: skip

CACHE = Path(".qualm") / "replies"


class GeneratorError(Exception):
    """A generator that cannot be opened or fails. The message says which, why, and what to do; what was answered is kept."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[bytes, ...] = ()
    """Pictures as they lie on disk (PNG, JPEG...), shown before the text."""


Chat = Sequence[Message]


def chat(text: str, *images: bytes) -> list[Message]:
    """The conversation of one question."""
    return [Message("user", text, images)]


@dataclass(frozen=True)
class Request:
    """One chat to answer."""

    messages: tuple[Message, ...]
    max_new_tokens: int
    temperature: float
    """0: the likeliest text. Above: drawn from the distribution at that temperature."""
    seed: int


@dataclass(frozen=True)
class GeneratorContext:
    """What a generator plugin is handed beside the spec's parameters."""

    settings: Settings = field(default_factory=Settings)


@runtime_checkable
class Engine(Protocol):
    """Something that answers chats."""

    identity: str
    """What the replies depend on beside the request: a digest, or a name and address."""
    name: str
    """For messages to people."""

    def answer(self, requests: Sequence[Request]) -> Iterator[list[tuple[int, Reply]]]:
        """Replies as they are made, each with its request's place; every request is answered once.

        Raises:
            GeneratorError: it cannot go on.
        """


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


class Generator:
    """An engine with its cache. `counters` says what was computed, taken from the cache, and retried."""

    def __init__(self, engine: Engine, settings: Settings, cache: Path = CACHE) -> None:
        self.engine, self.settings = engine, settings
        self.identity = engine.identity
        self.replies = Replies(cache, engine.identity)
        self.counters: Counter[str] = Counter()

    def complete(
        self, prompts: Sequence[Chat], *, max_new_tokens: int, temperature: float = 0.0, seeds: Sequence[int] | None = None
    ) -> list[Reply]:
        """One reply to each prompt, in order. Equal requests are asked once.

        Args:
            prompts: conversations that end with the user's turn.
            max_new_tokens: longest reply.
            temperature: 0 for the likeliest text.
            seeds: one for each prompt; another seed is another request. All 0 where not given.

        Raises:
            GeneratorError: the engine failed; what it had answered is kept, and is not asked again.
        """
        chosen = seeds if seeds is not None else [0] * len(prompts)
        requests = [Request(tuple(p), max_new_tokens, temperature, s) for p, s in zip(prompts, chosen, strict=True)]
        keys = [request_key(self.identity, r) for r in requests]
        open_ = {key: r for key, r in zip(keys, requests, strict=True) if key not in self.replies}
        self.counters["replies stored"] += len(set(keys)) - len(open_)
        rejected = self._ask(open_)
        return [self.replies[key] if key in self.replies else rejected[key] for key in keys]

    def _ask(self, requests: Mapping[bytes, Request]) -> dict[bytes, Reply]:
        """Answer and store; what came without text is handed back and not stored."""
        rejected: dict[bytes, Reply] = {}
        keys = list(requests)
        before = Counter(getattr(self.engine, "counters", {}))
        try:
            with progress(self.settings, f"asking {self.engine.name}", len(keys)) as advance:
                for done in self.engine.answer([requests[k] for k in keys]) if keys else ():
                    made = [(keys[place], reply) for place, reply in done]
                    self._keep([(key, reply) for key, reply in made if reply.text is not None])
                    rejected.update((key, reply) for key, reply in made if reply.text is None)
                    self.counters["replies computed"] += len(made)
                    advance(len(made))
        finally:
            self.counters.update(Counter(getattr(self.engine, "counters", {})) - before)
        if rejected:
            self.counters["replies rejected"] += len(rejected)
        if rejected and not len(self.replies):  # it never said anything: more likely our fault than theirs
            first = next(iter(rejected.values()))
            raise GeneratorError(f"{self.engine.name}: every request was rejected ({len(keys)}); the first so: {first.error}")
        return rejected

    def _keep(self, replies: list[tuple[bytes, Reply]]) -> None:
        try:
            self.replies.put(replies)
        except OSError as error:
            raise GeneratorError(
                f"{self.engine.name}: {len(replies)} replies cannot be kept in {self.replies.folder} ({error}); all before them are. "
                "Make room and run again"
            ) from error


def open_engine(chosen: Any, settings: Settings) -> Engine | Composer:
    """What a `Chosen` parameter of kind `generators` names."""
    made: Engine | Composer = load_chosen("generators", chosen)(GeneratorContext(settings))
    return made


def open_generator(chosen: Any, settings: Settings, cache: Path = CACHE) -> Generator:
    """The generator that a parameter names, with its cache.

    Args:
        chosen: what the plugin was handed: `{"plugin": "hf", "args": {...}}`.
        settings: of this run.
        cache: folder of the cache.

    Raises:
        GeneratorError: it cannot be opened, or answers no prompts.
    """
    engine = open_engine(chosen, settings)
    if not isinstance(engine, Engine):
        name = chosen if isinstance(chosen, str) else chosen["plugin"]
        raise GeneratorError(f"generator '{name}' answers no prompts, it only writes pairs about scenes; choose hf or openai")
    return Generator(engine, settings, cache)
