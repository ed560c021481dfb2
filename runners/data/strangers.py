"""Choice of an unrelated image for each sample, for the shuffled-image baseline."""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence


def strangers(rows: Sequence[tuple[str, str | None, str]]) -> dict[str, int]:
    """Choose for every row with an image another row, of another image and group if possible.

    Images and samples are placed on a circle by hashes of their names, and a sample takes the next unrelated image. So
    every image is equally likely, and adding or removing samples changes few other choices.

    Args:
        rows: (sample_id, image_id, group); a row without a group is its own group.

    Returns:
        sample_id -> index of the other row.
    """
    groups: dict[str, set[str]] = {}
    first: dict[str, int] = {}
    for place, (sample, image, group) in enumerate(rows):
        if image is not None:
            first.setdefault(image, place)
            groups.setdefault(image, set()).add(group or f"\0{sample}")
    circle = sorted((_drawn("picture", image), image) for image in first)
    points = [point for point, _ in circle]
    chosen: dict[str, int] = {}
    for sample, image, group in rows:
        if image is None:
            continue
        start = bisect_left(points, _drawn("sample", sample))
        for step in range(len(circle)):
            other = circle[(start + step) % len(circle)][1]
            if other != image and (group or f"\0{sample}") not in groups[other]:
                chosen[sample] = first[other]
                break
    return chosen


def _drawn(kind: str, name: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{name}".encode()).digest()
