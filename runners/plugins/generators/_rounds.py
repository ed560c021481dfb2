"""Asks a model until its reply can be used, a limited number of times, each try with its own seed."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from qualm.runners.contracts.generators import UnusableReply
from qualm.runners.inference.generator import Chat, Generator

T = TypeVar("T")


class Context(Protocol):
    """Of whoever asks: a pair recipe or a perturbation."""

    seed: int
    label: str
    counters: Counter[str]
    notes: dict[str, Any]

    def drop(self, reason: str, count: int = 1) -> None:
        """Count what could not be used."""


def in_rounds(
    context: Context,
    generator: Generator,
    chats: Mapping[str, Chat],
    read: Callable[[str, str], T],
    *,
    retries: int,
    temperature: float,
    max_new_tokens: int,
) -> dict[str, T]:
    """What could be read of each reply, by key; the rest is dropped and counted by its last reason.

    Args:
        generator: who is asked.
        chats: key -> conversation; keys are stable, since seeds follow from them.
        read: (key, reply) -> what it says, or raises `UnusableReply`.
        retries: further rounds for what could not be used.
        temperature: of the model.
        max_new_tokens: longest reply.
    """
    by_key: dict[str, T] = {}
    reasons: dict[str, str] = {}
    waiting = list(chats)
    before = generator.counters.copy()
    for attempt in range(retries + 1):
        if not waiting:
            break
        seeds = [_seed(context, key, attempt) for key in waiting]
        replies = generator.complete([chats[k] for k in waiting], max_new_tokens=max_new_tokens, temperature=temperature, seeds=seeds)
        for key, reply in zip(waiting, replies, strict=True):
            try:
                if reply.text is None:
                    raise UnusableReply("no reply")
                if reply.finish == "length":
                    raise UnusableReply("reply cut off")
                by_key[key] = read(key, reply.text)
            except UnusableReply as reason:
                reasons[key] = str(reason)
        waiting = [key for key in waiting if key not in by_key]
    context.counters.update(generator.counters - before)
    context.notes["generator"] = generator.engine.name
    for key in waiting:
        context.drop(reasons[key])
    return by_key


def _seed(context: Context, key: str, attempt: int) -> int:
    """A seed that servers take: 31 bits, of this request and try alone."""
    material = f"{context.seed} {context.label} {key} {attempt}"
    return int.from_bytes(hashlib.sha256(material.encode()).digest()[:4]) >> 1
