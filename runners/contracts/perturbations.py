"""Perturbations: changes to a sample before a model sees it, of a given strength.

A perturbation is one file here holding one function of the file's name, and a `MODALITY`:

    MODALITY = "image"
    def blur(batch: list[Image], rngs: list[Generator], *, radius: float = 2.0) -> list[Image]: ...

| MODALITY | an item of `batch` and of what is returned |
|---|---|
| `image` | `PIL.Image.Image`, mode RGB |
| `text` | `str`, the question without its options |
| `cross` | `tuple[PIL.Image.Image, str]` |

`STRENGTHS = ("radius",)` beside it names the numbers that make it stronger, which `qualm calibrate` turns; all its numbers unless it
says so, and `()` where more or less of it there is not.

`KEEPS_ANSWER = False` says that what was the right answer need not be right any more: answers under such a variant are not scored
against it, unless a spec says `scored: true` beside the parameters. True unless a file says so.

What `infer` relies on, and every perturbation keeps:

- As many items come back as went in, in their order; the items that went in are not modified.
- None in the place of an item: it cannot be applied to that one, which then has no such variant and is counted.
- Size and mode of an image are kept.
- `rngs` holds one generator per item, made from (seed, variant, sample_id) alone: an item's result never depends on its
  neighbours, its position or the batch size. No other source of chance is used.
- A strength of nothing (radius 0, sigma 0, p 0) returns equal items. An item that comes back as it was is counted too.

A perturbation is made where pictures are loaded, each time anew. One that takes minutes or money for that (a model writes or looks)
asks for a context first:

    def inv(context: PerturbContext, batch: list[str], rngs: list[Generator], *, generator: ...) -> list[str | None]: ...

It then is a stage of its own, `perturb`: made once for all models, written down, and handed on with the other results. What it asks
of a model is kept by content, so that a killed run goes on. `materialize: true` makes a stage of any other perturbation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from qualm.registry import MODALITIES as MODALITIES

if TYPE_CHECKING:
    from qualm.registry.scenes.world import Scene
    from qualm.runners.runtime.settings import Settings

CONTEXT = "context"
"""A first parameter of this name: see above."""

T = TypeVar("T")


class PerturbError(Exception):
    """A perturbation that cannot be made. The message says which, what was expected, what to do; what a model has said is kept."""


@dataclass
class PerturbContext:
    """What a perturbation is handed that asks for it: who and where the items are, and what lasts from batch to batch."""

    settings: Settings
    seed: int
    label: str
    """The variant, or what else seeds of requests are to depend on."""
    rows: Sequence[Mapping[str, Any]] = ()
    """Of SAMPLES, one for each item of the batch."""
    pictures: Sequence[bytes | None] = ()
    """Their pictures as they lie in the data set (PNG, JPEG...)."""
    facts: Sequence[dict[str, str]] = ()
    """For each item what is to be kept of how it was made, in the sample's `meta`: to be filled in."""
    scenes: Callable[[], Mapping[str, Scene]] = dict
    """Scene graphs of the data set by image_id, as far as it has them."""
    dropped: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    """What this run did (asked, found in a cache...): printed, and not part of the result."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Anything else worth keeping beside the result, as JSON."""
    lasting: dict[str, Any] = field(default_factory=dict)
    """What is opened once for all batches: models, generators."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count an item that the perturbation cannot be applied to, with the reason in a few words."""
        self.dropped[reason] += count

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returns; it is called for the first batch only."""
        if name not in self.lasting:
            self.lasting[name] = make()
        value: T = self.lasting[name]
        return value


def generator(seed: int, variant: str, sample_id: str) -> np.random.Generator:
    """The random numbers of one sample under one variant: counter-based, the same on every machine.

    >>> int(generator(7, "blur@radius=2.0", "a").integers(1000)) == int(generator(7, "blur@radius=2.0", "a").integers(1000))
    True
    """
    material = hashlib.sha256(f"{seed}\0{variant}\0{sample_id}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(material[:16], "little")))
