"""Map a function on threads ahead of its consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from qualm.registry.machine import usable_cores

T = TypeVar("T")
R = TypeVar("R")


def map_ahead(function: Callable[[T], R], items: Iterable[T], workers: int, depth: int = 2) -> Iterator[R]:
    """Yield `function(item)` in the items' order, computed on threads ahead of the consumer.

    Decoding, filtering and hashing release Python's lock, so threads suffice, and a killed runner leaves no process behind.

    Args:
        workers: number of threads; 0 = one per core.
        depth: results per thread that may wait for the consumer.
    """
    count = workers or usable_cores()
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(count, thread_name_prefix="loader")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > count * depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
