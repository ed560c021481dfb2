"""Context and random numbers of perturbations."""

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
"""Name of the first parameter of such a perturbation."""

T = TypeVar("T")


class PerturbError(Exception):
    """Error that a perturbation cannot be made; the message says why and what to do."""


@dataclass
class PerturbContext:
    """One batch of items to perturb, its settings, and state that lasts from batch to batch."""

    settings: Settings
    seed: int
    label: str
    """The variant, or another name that seeds of requests depend on."""
    rows: Sequence[Mapping[str, Any]] = ()
    """Rows of SAMPLES, one per item."""
    pictures: Sequence[bytes | None] = ()
    """Encoded images of the dataset (PNG, JPEG...), one per item."""
    facts: Sequence[dict[str, str]] = ()
    """One dict per item, to be filled with facts for the sample's `meta`."""
    scenes: Callable[[], Mapping[str, Scene]] = dict
    """Return the scene graphs of the dataset by image_id, as far as it has them."""
    dropped: Counter[str] = field(default_factory=Counter)
    counters: Counter[str] = field(default_factory=Counter)
    notes: dict[str, Any] = field(default_factory=dict)
    lasting: dict[str, Any] = field(default_factory=dict)
    """Models and generators that are opened once for all batches."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count `count` items that the perturbation does not apply to, by a short reason."""
        self.dropped[reason] += count

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return `make()`, called for the first batch only and stored under `name`."""
        if name not in self.lasting:
            self.lasting[name] = make()
        value: T = self.lasting[name]
        return value


def random_generator(seed: int, variant: str, sample_id: str) -> np.random.Generator:
    """Return the random generator of a sample under a variant, the same on every machine.

    >>> int(random_generator(7, "blur@radius=2.0", "a").integers(1000)) == int(random_generator(7, "blur@radius=2.0", "a").integers(1000))
    True
    """
    material = hashlib.sha256(f"{seed}\0{variant}\0{sample_id}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(material[:16], "little")))
