import pytest

from qualm.runners.runtime.spending_limit import WAIT, RunLimit, SpendingLimitError


def test_a_limit_of_one_run():
    limit = RunLimit(1.0)
    first = limit.hold(0.6)
    assert first != WAIT and limit.hold(0.6) == WAIT
    limit.settle(first, 0.1)
    second = limit.hold(0.6)
    assert second not in (WAIT, first)
    limit.settle(second, 0.6)
    with pytest.raises(SpendingLimitError, match=r"max_spend = \$1, \$0\.7000 spent; the next request may cost \$0\.4000\); raise it"):
        limit.hold(0.4)
    exact = RunLimit(1.0)
    assert WAIT not in (exact.hold(0.25), exact.hold(0.75)) and exact.room() == 0 and exact.hold(1.0) == WAIT


def test_without_a_limit_everything_has_room():
    limit = RunLimit(0.0)
    assert len({limit.hold(1e9) for _ in range(5)}) == 5


def test_a_name_holds_once_and_room_is_what_is_left():
    limit = RunLimit(1.0)
    assert limit.hold(0.4, "batch") == limit.hold(0.4, "batch") == "batch" and limit.room() == 0.6 and limit.holds("batch")
    limit.settle("batch", 0.1)
    assert not limit.holds("batch") and limit.room() == 0.9 and RunLimit(0.0).room() == float("inf")
