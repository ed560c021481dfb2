"""Text generators with a cache: each distinct request is sent once."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qualm.registry.plugins.registry import load_chosen
from qualm.runners.contracts.generators import ChatRequest, Composer, GeneratorContext, GeneratorEngine, GeneratorError, Message, Reply
from qualm.runners.data.replies import Replies, request_key
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.settings import Settings

CACHE = Path(".qualm") / "replies"

Chat = Sequence[Message]


class CachedGenerator:
    """A text generator with a reply cache; counts computed, stored and rejected replies."""

    def __init__(self, engine: GeneratorEngine, settings: Settings, cache: Path = CACHE) -> None:
        self.engine, self.settings = engine, settings
        self.identity = engine.identity
        self.replies = Replies(cache, engine.identity)
        self.counters: Counter[str] = Counter()
        self.items_read = 0
        """Requested items that a reader could use (`qualm.runners.plugins.generators._rounds`)."""
        self.items_dropped: Counter[str] = Counter()
        """Items given up, by the last reason."""

    def complete(
        self,
        prompts: Sequence[Chat],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        seeds: Sequence[int] | None = None,
        parts: Sequence[str] = (),
    ) -> list[Reply]:
        """Return one reply to each prompt, in order; equal requests are sent once.

        Args:
            temperature: 0 for greedy decoding.
            seeds: one for each prompt, all 0 by default; another seed is another request.
            parts: keys of a JSON object of texts that replies should be, for engines with structured output; else replies are text.

        Raises:
            GeneratorError: the engine failed; the replies so far are stored.
        """
        chosen = seeds if seeds is not None else [0] * len(prompts)
        schema = _schema(parts) if parts and getattr(self.engine, "structured", False) else ""
        requests = [ChatRequest(tuple(p), max_new_tokens, temperature, s, schema) for p, s in zip(prompts, chosen, strict=True)]
        keys = [request_key(self.identity, r) for r in requests]
        open_ = {key: r for key, r in zip(keys, requests, strict=True) if key not in self.replies}
        self.counters["replies stored"] += len(set(keys)) - len(open_)
        rejected = self._ask(open_)
        return [self.replies[key] if key in self.replies else rejected[key] for key in keys]

    def _ask(self, requests: Mapping[bytes, ChatRequest]) -> dict[bytes, Reply]:
        """Send requests, store replies; return {key: reply} of the rejected requests alone.

        Raises:
            GeneratorError: some are rejected, and none was ever answered.
        """
        rejected: dict[bytes, Reply] = {}
        keys = list(requests)
        # Engines count over their whole life; only what this call added is ours to report.
        before = Counter(getattr(self.engine, "counters", {}))
        try:
            with progress(self.settings, f"asking {self.engine.name}", len(keys)) as advance:
                for done in self.engine.answer([requests[k] for k in keys]) if keys else ():
                    replies = [(keys[place], reply) for place, reply in done]
                    self._keep([(key, reply) for key, reply in replies if reply.finish != "rejected"])
                    rejected.update((key, reply) for key, reply in replies if reply.finish == "rejected")
                    self.counters.update("replies without text" for _, reply in replies if reply.finish == "no text")
                    self.counters["replies computed"] += len(replies)
                    advance(len(replies))
        finally:
            self.counters.update(Counter(getattr(self.engine, "counters", {})) - before)
        if rejected:
            self.counters["replies rejected"] += len(rejected)
        if rejected and not len(self.replies):  # it never said anything: more likely our fault than theirs
            first = next(iter(rejected.values()))
            raise GeneratorError(f"{self.engine.name}: every request was rejected ({len(keys)}); the first: {first.error}")
        return rejected

    def _keep(self, replies: list[tuple[bytes, Reply]]) -> None:
        try:
            self.replies.put(replies)
        except OSError as error:
            raise GeneratorError(
                f"{self.engine.name}: {len(replies)} replies cannot be kept in {self.replies.folder} ({error}); all before them are. "
                "Make room and run again"
            ) from error


def _schema(parts: Sequence[str]) -> str:
    return json.dumps(
        {
            "type": "object",
            "properties": {part: {"type": "string"} for part in parts},
            "required": list(parts),
            "additionalProperties": False,
        }
    )


def open_engine(chosen: Any, settings: Settings) -> GeneratorEngine | Composer:
    """Create the engine, or composer, that a `generators` parameter names."""
    engine: GeneratorEngine | Composer = load_chosen("generators", chosen)(GeneratorContext(settings))
    return engine


def open_generator(chosen: Any, settings: Settings, cache: Path = CACHE) -> CachedGenerator:
    """Create the cached generator a parameter names; GeneratorError if it answers no prompts.

    Raises:
        GeneratorError: it cannot be opened, or does not answer prompts.
    """
    engine = open_engine(chosen, settings)
    if not isinstance(engine, GeneratorEngine):
        name = chosen if isinstance(chosen, str) else chosen["plugin"]
        raise GeneratorError(f"generator '{name}' answers no prompts, it only writes pairs about scenes; choose hf or openai")
    return CachedGenerator(engine, settings, cache)
