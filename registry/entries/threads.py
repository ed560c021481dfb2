"""`map` on threads over many small things, in order: reading, hashing and decoding files let go of Python's lock."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 1024
"""Items handed to the threads at once, so that a million of them take no more memory than these."""


def mapped(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Results in the order of the items. The first exception ends it, once what was begun has ended."""
    waiting = iter(items)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="files") as pool:
        while some := list(islice(waiting, AHEAD)):
            yield from pool.map(function, some)
