"""Saliency: the thing in the picture on which the answer depends, and its name.

A plugin is one file here holding one function of the file's name:

    def gqa(context: PairContext, folder: Path, rows: Sequence[Row], *, graphs: Artifact) -> Iterator[Target]: ...

`rows` are samples of the source data set that have a picture, `folder` is where that data set lies. What the recipe
`inpainted` relies on, and every plugin keeps:

- It streams `Target`s in the order of `rows`; keys and randomness follow from the source's ids alone.
- A row of which it can say nothing is dropped by `context.drop(reason)`, counted and never in silence.
- `thing` is all that has to go: where a name fits several things, all of them, so that their masks make one.
- It never opens a picture. What it knows of places it gives as boxes in pixels, or as objects of a scene graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qualm.registry.scenes.world import Scene

Row = Mapping[str, Any]
"""A row of SAMPLES."""
Box = tuple[float, float, float, float]
"""Left, top, width, height in pixels of the picture as it is stored."""


@dataclass(frozen=True)
class Thing:
    """What may be taken out of a picture."""

    name: str
    """A noun phrase without an article: `red cube`."""
    plural: str
    """The same of several, for "I don't see any ..."; where that is not known the name itself, as in the paper."""
    boxes: tuple[Box, ...] = ()
    """Where it is, if that is known: one box for each thing of the name."""
    objects: tuple[int, ...] = ()
    """Its places in the scene graph, where there is one."""
    query: str = ""
    """What a detector is asked for, where that says more than the name may: `red car` where red is the answer."""


@dataclass(frozen=True)
class Target:
    """One question that the picture answers, and what must go so that it no longer does."""

    key: str
    """Unique within the recipe, from the source's ids; pair and picture are named by it."""
    row: Row
    question: str
    answer: str
    thing: Thing
    asks: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Other questions about the thing that a template makes, each with its answer; none unless given."""
    others: tuple[Thing, ...] = ()
    """What else is in the picture and could go without changing the answer: candidates for control masks."""
    scene: Scene | None = None
    """The scene graph of the picture, where it was drawn from one: pairs are then proved."""


def answer_of(row: Row) -> str | None:
    """The answer a source gives to its own question: the commonest reference, or the right option; None if there is none."""
    if not row["answerable"]:
        return None
    if row["references"]:
        return str(Counter(row["references"]).most_common(1)[0][0])
    if row["answer_index"] is not None:
        return str(row["choices"][row["answer_index"]])
    return None
