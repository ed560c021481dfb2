"""Batches: however many of a plan were done before a kill, the plan of the rest is the rest of the plan."""

import random
import threading
import time

import pytest

from runners.ahead import ahead
from runners.asking import Cell, plan


def cells(n, seed):
    rng = random.Random(seed)
    parts = [("answer",), ("answer", "p_true")]
    return [
        Cell(0, i, 0, rng.choice([0, 6]), rng.random() < 0.8, {p: f"{i} {p}".encode() for p in rng.choice(parts)}, "") for i in range(n)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_resumed_plan_is_the_rest_of_the_plan(seed):
    every = cells(57, seed)
    whole = plan(every, 4)
    for done in range(len(whole) + 1):
        stored = {c.row for batch in whole[:done] for c in batch}
        assert plan([c for c in every if c.row not in stored], 4) == whole[done:]


def test_batches_are_alike_bounded_and_complete():
    every = cells(100, 3)
    batches = plan(every, 8)
    assert sorted(c.row for b in batches for c in b) == list(range(100))
    assert all(len(b) <= 8 and len({(c.has_image, c.options > 0, tuple(c.keys)) for c in b}) == 1 for b in batches)
    assert sum(len(b) < 8 for b in batches) <= 8


def test_ahead_keeps_order_and_bounds_what_waits():
    started, lock = [], threading.Lock()

    def work(i):
        with lock:
            started.append(i)
        time.sleep(0.002 * (i % 3))
        return i

    got = []
    for i in ahead(work, range(50), workers=3, depth=2):
        got.append(i)
        assert len(started) <= i + 3 * 2 + 2
    assert got == list(range(50))


def test_ahead_passes_errors_on_and_stops():
    def work(i):
        if i == 5:
            raise ValueError("five")
        return i

    with pytest.raises(ValueError, match="five"):
        list(ahead(work, range(10**6), workers=2))
