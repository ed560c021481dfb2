"""Things in an image on which answers depend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qualm.registry.scenes.world import Scene

Row = Mapping[str, Any]
Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels of the stored image."""


@dataclass(frozen=True)
class Thing:
    """An object in an image, which can be masked and removed."""

    name: str
    """Noun phrase without an article: `red cube`."""
    plural: str
    """Plural, for "I don't see any ..."; if unknown the name itself, as in the paper."""
    boxes: tuple[Box, ...] = ()
    """Places, if known: one box per thing of the name."""
    objects: tuple[int, ...] = ()
    """Indices in the scene graph, if there is one."""
    query: str = ""
    """Query for a detector, if it may say more than the name: `red car` where red is the answer."""


@dataclass(frozen=True)
class Target:
    """A question that the image answers, and the thing without which it cannot be answered."""

    key: str
    """Unique within the recipe, from the source's ids; names pair and image."""
    row: Row
    question: str
    answer: str
    thing: Thing
    asks: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Return further questions about the thing, with answers."""
    others: tuple[Thing, ...] = ()
    """Other things that could go without changing the answer: candidates for control masks."""
    scene: Scene | None = None
    """Scene graph of a drawn image, by which pairs are proved."""


def answer_of(row: Row) -> str | None:
    """Return the commonest reference, else the right option; None if none or unanswerable."""
    if not row["answerable"]:
        return None
    if row["references"]:
        return str(Counter(row["references"]).most_common(1)[0][0])
    if row["answer_index"] is not None:
        return str(row["choices"][row["answer_index"]])
    return None
