"""Pictures that look alike: 64-bit perceptual hashes, and all pairs of two sets within some bits of each other.

What would be lost without it: a picture that was saved twice under two names, once to train on and once to be asked about.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from qualm.registry.formats.pictures import PictureError, decoded

Hashes = NDArray[np.uint64]

BLOCK = 1 << 24
"""Comparisons made at once: 128 MiB of differences."""
DRAFT = (64, 64)
"""JPEG is decoded at the smallest of its scales that is no smaller than this: the hash looks at 32 x 32 pixels."""


def perceptual_hash(data: bytes) -> int | None:
    """The DCT hash of an encoded picture (imagehash's `phash`: signs of its 64 lowest frequencies); None if it cannot be decoded."""
    import imagehash

    try:
        bits = imagehash.phash(decoded(data, draft=DRAFT)).hash
    except PictureError:
        return None
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def close_pairs(first: Hashes, second: Hashes, distance: int) -> Iterator[tuple[int, int, int]]:
    """Places (i, j) with at most `distance` different bits between first[i] and second[j], and how many differ.

    Every hash is compared with every other, in blocks of numpy operations: exact, and 100,000 against 10,000 take seconds.
    """
    left, left_places = _distinct(first)
    right, right_places = _distinct(second)
    step = max(1, BLOCK // max(1, len(right)))
    for start in range(0, len(left), step):
        bits = np.bitwise_count(left[start : start + step, None] ^ right[None, :])
        for a, b in zip(*np.nonzero(bits <= distance), strict=True):
            for i in left_places[start + a]:
                for j in right_places[b]:
                    yield int(i), int(j), int(bits[a, b])


def _distinct(hashes: Hashes) -> tuple[Hashes, Sequence[NDArray[np.int64]]]:
    """Each hash once, in rising order, and the places where it stood."""
    order = np.argsort(hashes, kind="stable")
    values, starts = np.unique(hashes[order], return_index=True)
    return values, np.split(order, starts[1:]) if len(values) else []
