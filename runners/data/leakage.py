"""Leakage between splits: shared images and groups, and near-duplicate images."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.formats.picture_lists import picture_ids
from qualm.runners.runtime.stage import StageError

Hashes = NDArray[np.uint64]

BLOCK = 1 << 24
"""Comparisons per block: 128 MiB of differences."""


def close_pairs(first: Hashes, second: Hashes, distance: int) -> Iterator[tuple[int, int, int]]:
    """Yield (i, j, bits), unsorted, where first[i] and second[j] differ in <= `distance` bits.

    The comparison is exhaustive, in blocks: 100,000 against 10,000 hashes take seconds.
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
    order = np.argsort(hashes, kind="stable")
    values, starts = np.unique(hashes[order], return_index=True)
    return values, np.split(order, starts[1:]) if len(values) else []


TRAIN = "train"
ORDER = (TRAIN, "val", "test")
SHOWN = 50
"""Image pairs that statistics.json lists; all are counted."""


def check_splits(parts: Sequence[tuple[str, pa.Table]]) -> None:
    """Raise StageError if two splits share an image or group; `parts`: (recipe, samples)."""
    for column, what in (("image_id", "image"), ("group", "group")):
        place: dict[str, tuple[str, str, str]] = {}
        for label, table in parts:
            for name, split, sample in zip(*(table[c].to_pylist() for c in (column, "split", "sample_id")), strict=True):
                for one in (picture_ids(name) if column == "image_id" else (name,)) if name else ():
                    first = place.setdefault(one, (split, label, sample))
                    if first[0] == split:
                        continue
                    raise StageError(
                        f"{what} '{one}' is in two splits: {first[0]} (recipe {first[1]}, sample '{first[2]}') and "
                        f"{split} (recipe {label}, sample '{sample}'); what is trained on would be tested on. "
                        "Make the pairs from a dataset whose splits share no image"
                    )


def near_duplicates(samples: pa.Table, hashes: Mapping[str, int], distance: int) -> tuple[dict[str, Any], set[str]]:
    """Return (facts as JSON, pair ids to leave out) about near-duplicates across splits.

    Args:
        samples: rows of SAMPLES whose splits share no image.
        hashes: image id -> perceptual hash; images without one are ignored.
        distance: largest number of differing bits of a near-duplicate.

    Returns:
        Facts as JSON: how many pairs of images, between which splits, and the closest of them; and the pairs of questions
        (`pair_id`) to leave out so that none remain: those on the split that comes first of train, val, test.
    """
    of_split: dict[str, dict[str, None]] = defaultdict(dict)
    owners: dict[str, set[str]] = defaultdict(set)
    for image, split, pair in zip(*(samples[c].to_pylist() for c in ("image_id", "split", "pair_id")), strict=True):
        for name in picture_ids(image):
            if name in hashes:
                of_split[split][name] = None
                owners[name].add(pair)
    order = sorted(of_split, key=lambda s: (ORDER.index(s) if s in ORDER else len(ORDER), s))
    between: Counter[str] = Counter()
    pairs: list[tuple[int, str, str, str, str]] = []
    lost: set[str] = set()
    for first, second in combinations(order, 2):
        left, right = list(of_split[first]), list(of_split[second])
        codes = [np.array([hashes[i] for i in names], dtype=np.uint64) for names in (left, right)]
        for i, j, bits in close_pairs(codes[0], codes[1], distance):
            between[f"{first}/{second}"] += 1
            lost |= owners[left[i]]
            pairs.append((bits, first, left[i], second, right[j]))
            if len(pairs) > 100 * SHOWN:
                pairs = sorted(pairs)[:SHOWN]
    closest = [{"bits": b, s1: i1, s2: i2} for b, s1, i1, s2, i2 in sorted(pairs)[:SHOWN]]
    return {"pairs": between.total(), "between": dict(sorted(between.items())), "closest": closest}, lost
