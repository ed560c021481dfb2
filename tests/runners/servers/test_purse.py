import pytest

from qualm.runners.servers.purse import WAIT, OverCap, OwnPurse


def test_a_limit_of_one_run():
    purse = OwnPurse(1.0)
    first = purse.hold(0.6)
    assert first != WAIT and purse.hold(0.6) == WAIT
    purse.settle(first, 0.1)
    second = purse.hold(0.6)
    assert second not in (WAIT, first)
    purse.settle(second, 0.6)
    with pytest.raises(OverCap, match=r"max_spend = \$1, \$0\.7000 spent"):
        purse.hold(0.4)


def test_without_a_limit_everything_has_room():
    purse = OwnPurse(0.0)
    assert len({purse.hold(1e9) for _ in range(5)}) == 5


def test_a_name_holds_once_and_room_is_what_is_left():
    purse = OwnPurse(1.0)
    assert purse.hold(0.4, "batch") == purse.hold(0.4, "batch") == "batch" and purse.room() == 0.6 and purse.holds("batch")
    purse.settle("batch", 0.1)
    assert not purse.holds("batch") and purse.room() == 0.9 and OwnPurse(0.0).room() == float("inf")
