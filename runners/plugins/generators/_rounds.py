"""Requests to a model in rounds until its replies are usable, with a new seed for each attempt.

Every attempt may cost money. An item without a usable reply is dropped and counted; if none of the first `FIRST` items is usable, the run
stops.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from qualm.runners.contracts.generators import GeneratorError, NoPairError
from qualm.runners.inference.generator import CachedGenerator, Chat

ATTEMPTS = 2
"""Default number of attempts per item."""
FIRST = 32
"""Items after whose attempts the run stops if no reply was usable."""
T = TypeVar("T")


class Context(Protocol):
    """Context of a pair recipe or perturbation, as far as rounds of requests need it."""

    seed: int
    label: str
    counters: Counter[str]
    notes: dict[str, Any]

    def drop(self, reason: str, count: int = 1) -> None:
        """Count `count` unusable items under a reason."""


@dataclass(frozen=True)
class GenerationRounds:
    """Options of requests in rounds: attempts, temperature, length, parts of a JSON reply."""

    attempts: int
    """Attempts per item in all."""
    temperature: float
    max_new_tokens: int
    parts: Sequence[str] = ()
    """Keys of a structured reply, for generators with structured output."""


def ask_in_rounds(
    context: Context, generator: CachedGenerator, chats: Mapping[str, Chat], read: Callable[[str, str], T], asking: GenerationRounds
) -> dict[str, T]:
    """Return key -> result of `read` on the reply; ask unusable ones again, then drop them.

    Args:
        chats: key -> conversation; keys are stable, since seeds follow from them.
        read: (key, reply) -> what it says, or raises `NoPairError`.

    Raises:
        GeneratorError: the generator failed, or none of its first replies was usable.
    """
    keys = list(chats)
    probe = keys[:FIRST] if not generator.items_read and len(keys) > FIRST else []
    before = generator.counters.copy()
    context.notes["generator"] = generator.engine.name
    by_key: dict[str, T] = {}
    for part in (probe, keys[len(probe) :]):
        part_chats = {key: chats[key] for key in part}
        readings, reasons = _rounds(context, generator, part_chats, read, asking)
        by_key |= readings
        generator.items_read += len(readings)
        generator.items_dropped.update(reasons.values())
        if part is probe and probe and not readings:
            raise GeneratorError(_nothing(generator.engine.name, Counter(reasons.values()), asking.attempts))
        for reason in reasons.values():
            context.drop(reason)
    context.counters.update(generator.counters - before)
    return by_key


def check_dropped_share(generator: CachedGenerator, max_share: float) -> None:
    """Raise GeneratorError if a larger share of the items than `max_share` was dropped."""
    dropped, items = generator.items_dropped.total(), generator.items_dropped.total() + generator.items_read
    if items and dropped / items > max_share:
        why = ", ".join(f"{reason}: {n}" for reason, n in generator.items_dropped.most_common())
        raise GeneratorError(
            f"{generator.engine.name}: {dropped:,} of {items:,} items were dropped ({why}), more than `most_dropped: {max_share:g}` "
            "allows; what was answered is kept: change the prompt or the model, or raise `most_dropped`"
        )


def _rounds(
    context: Context, generator: CachedGenerator, chats: Mapping[str, Chat], read: Callable[[str, str], T], asking: GenerationRounds
) -> tuple[dict[str, T], dict[str, str]]:
    """Return (key -> usable result, key -> last reason for chats without one)."""
    by_key: dict[str, T] = {}
    reasons: dict[str, str] = {}
    waiting = list(chats)
    for attempt in range(asking.attempts):
        if not waiting:
            break
        seeds = [_seed(context, key, attempt) for key in waiting]
        replies = generator.complete(
            [chats[k] for k in waiting],
            max_new_tokens=asking.max_new_tokens,
            temperature=asking.temperature,
            seeds=seeds,
            parts=asking.parts,
        )
        for key, reply in zip(waiting, replies, strict=True):
            try:
                if reply.text is None:
                    raise NoPairError("no reply")
                if reply.finish == "length":
                    raise NoPairError("reply cut off")
                by_key[key] = read(key, reply.text)
            except NoPairError as reason:
                reasons[key] = str(reason)
        waiting = [key for key in waiting if key not in by_key]
    return by_key, {key: reasons[key] for key in waiting}


def _nothing(name: str, reasons: Counter[str], attempts: int) -> str:
    why = ", ".join(f"{reason}: {n}" for reason, n in reasons.most_common())
    return (
        f"{name}: none of the replies to the first {reasons.total()} items could be used in {attempts} attempts ({why}); the rest was not "
        "asked. Read some of them in .qualm/replies; change the prompt or the model"
    )


def _seed(context: Context, key: str, attempt: int) -> int:
    """Return the seed (31 bits) of one attempt at an item."""
    material = f"{context.seed} {context.label} {key} {attempt}"
    return int.from_bytes(hashlib.sha256(material.encode()).digest()[:4]) >> 1
