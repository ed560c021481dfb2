"""Perturbations: what is done to a sample before a model sees it, at a strength.

A perturbation is one file here holding one function of the file's name, and a `MODALITY`:

    MODALITY = "image"
    def blur(batch: list[Image], rngs: list[Generator], *, radius: float = 2.0) -> list[Image]: ...

| MODALITY | an item of `batch` and of what is returned |
|---|---|
| `image` | `PIL.Image.Image`, mode RGB |
| `text` | `str`, the question without its options |
| `cross` | `tuple[PIL.Image.Image, str]` |

What `infer` relies on, and every perturbation keeps:

- As many items come back as went in, in their order; the items that went in are not modified.
- Size and mode of an image are kept.
- `rngs` holds one generator per item, made from (seed, variant, sample_id) alone: an item's result never depends on its
  neighbours, its position or the batch size. No other source of chance is used.
- A strength of nothing (radius 0, sigma 0, p 0) returns equal items.
"""

from __future__ import annotations

import hashlib

import numpy as np

MODALITIES = ("image", "text", "cross")


def generator(seed: int, variant: str, sample_id: str) -> np.random.Generator:
    """The random numbers of one sample under one variant: counter-based, the same on every machine.

    >>> int(generator(7, "blur@radius=2.0", "a").integers(1000)) == int(generator(7, "blur@radius=2.0", "a").integers(1000))
    True
    """
    material = hashlib.sha256(f"{seed}\0{variant}\0{sample_id}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(material[:16], "little")))
