import threading

import pytest

from qualm.registry.entries import threads
from qualm.registry.entries.threads import mapped


def test_results_come_in_the_order_of_the_items_whatever_is_done_first(monkeypatch):
    monkeypatch.setattr(threads, "AHEAD", 3)
    assert list(mapped(lambda n: n * n, range(10))) == [n * n for n in range(10)] and list(mapped(str, [])) == []


def test_no_more_items_are_taken_than_are_worked_on(monkeypatch):
    monkeypatch.setattr(threads, "AHEAD", 4)
    taken = []
    results = mapped(lambda n: n, (taken.append(n) or n for n in range(100)))
    assert next(results) == 0 and len(taken) == 4


def test_work_is_done_on_other_threads_and_the_first_exception_ends_it():
    names = set(mapped(lambda _: threading.current_thread().name, range(8)))
    assert all(name.startswith("files") for name in names)

    def fail(n):
        if n == 2:
            raise ValueError("two")
        return n

    results = mapped(fail, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
