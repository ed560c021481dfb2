"""Checks of file names: valid on every file system, and complete as a set of shards."""

import re
from collections import defaultdict
from collections.abc import Iterable

MAX_SHARDS = 100_000
SHARD = re.compile(r"\d{5}-of-(\d{5})(?=\.[^/]*$|$)")
"""The part of a file's name that says which shard of how many it is."""
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')


def problem_on_windows(name: str) -> str:
    """Return why Windows cannot store a file of this name; "" if it can.

    >>> problem_on_windows("nul.parquet"), problem_on_windows("a."), problem_on_windows("blur@radius=2")
    ("'nul.parquet' is the name of a device", "'a.' ends with a dot", '')
    """
    if _DEVICE.fullmatch(name):
        return f"'{name}' is the name of a device"
    if name.endswith((".", " ")):
        return f"'{name}' ends with a {'dot' if name.endswith('.') else 'space'}"
    if match := _FORBIDDEN.search(name):
        return f"'{name}' holds {match[0]!r}"
    return ""


def missing_shards(names: Iterable[str]) -> list[str]:
    """Return the sorted names that are missing from sets `STEM-00001-of-00005.SUFFIX`.

    Shards are numbered from 0 (`datasets`) or from 1 (`safetensors`); where neither the first nor the last is there, from 0.

    >>> missing_shards(["a-00000-of-00003.parquet", "a-00002-of-00003.parquet"]), missing_shards(["m-00002-of-00002.bin"])
    (['a-00001-of-00003.parquet'], ['m-00001-of-00002.bin'])
    """
    sets: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for name in names:
        if match := SHARD.search(name):
            sets[name[: match.start()], int(match[1]), name[match.end() :]].add(int(match[0][:5]))
    missing = []
    for (stem, total, suffix), numbers in sets.items():
        first = int(total in numbers and 0 not in numbers)
        wanted = range(first, min(total, MAX_SHARDS) + first)
        missing += [f"{stem}{n:05d}-of-{total:05d}{suffix}" for n in wanted if n not in numbers]
    return sorted(missing)
