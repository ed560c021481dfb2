"""Work done ahead: in order, bounded, and errors come through."""

import threading
import time

import pytest

from qualm.runners.runtime.prefetch import map_ahead


def test_ahead_keeps_order_and_bounds_what_waits():
    started, lock = [], threading.Lock()

    def work(i):
        with lock:
            started.append(i)
        time.sleep(0.002 * (i % 3))
        return i

    got = []
    for i in map_ahead(work, range(50), workers=3, depth=2):
        got.append(i)
        assert len(started) <= i + 3 * 2 + 2
    assert got == list(range(50))


def test_ahead_passes_errors_on_and_stops():
    def work(i):
        if i == 5:
            raise ValueError("five")
        return i

    with pytest.raises(ValueError, match="five"):
        list(map_ahead(work, range(10**6), workers=2))
