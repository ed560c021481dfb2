"""A value of the newest object only: computed once while the same object is asked for, and anew for any other."""

import pytest

from qualm.runners.scoring.last_value import LastValue


def test_it_is_computed_once_for_the_same_object_and_again_for_an_equal_one() -> None:
    newest, computed = LastValue[int](), []
    first, equal = [1, 2], [1, 2]
    for key in (first, first, equal, equal, first):
        computed.append(newest.get(key, lambda: len(computed)))
    assert computed == [0, 0, 2, 2, 4]


def test_what_is_nothing_is_kept_too() -> None:
    newest, calls = LastValue[None](), []
    for _ in range(3):
        assert newest.get(None, lambda: calls.append(1)) is None
    assert len(calls) == 1


def test_the_rest_of_the_key_counts_by_what_it_is() -> None:
    newest, key = LastValue[str](), object()
    assert newest.get(key, lambda: "a", second_key=1000) == "a"
    assert newest.get(key, lambda: "b", second_key=int("1000")) == "a"
    assert newest.get(key, lambda: "c", second_key=999) == "c"


def test_a_failure_keeps_what_was_there() -> None:
    newest, key = LastValue[int](), object()
    newest.get(key, lambda: 3)
    with pytest.raises(ZeroDivisionError):
        newest.get(object(), lambda: 1 // 0)
    assert newest.get(key, lambda: 4) == 3


def test_its_object_is_held_so_that_no_other_takes_its_place_in_memory() -> None:
    newest = LastValue[int]()
    assert [newest.get([n], lambda n=n: n) for n in range(50)] == list(range(50))
