"""Parameters compared with those of a lock."""

from qualm.compiler.forecast.rebuilds import Reason, differences


def test_leaves_that_differ() -> None:
    old = {"params": {"k": 1, "names": ["a"], "gone": 2}}
    new = {"params": {"k": 1.0, "names": ["a"], "new": 3}}
    assert list(differences(old, new)) == [
        Reason("parameter", "gone", 2, None),
        Reason("parameter", "k", 1, 1.0),
        Reason("parameter", "new", None, 3),
    ]


def test_keys_of_a_lock_may_be_of_any_type() -> None:
    old, new = {1: 0, "a": 1, None: 2}, {"a": 1, 2.5: 3}
    assert [(r.what, r.old, r.new) for r in differences(old, new)] == [("1", 0, None), ("2.5", None, 3), ("None", 2, None)]
