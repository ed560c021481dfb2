"""Pauses, places in a minute, dollars: decisions about time and money, held to arithmetic."""

import threading

import pytest

from qualm.runners.runtime.server_config import Price
from qualm.runners.runtime.spending_limit import RunLimit, SpendingLimitError
from qualm.runners.servers.rate_limits import Budget, RateLimiter, RetryPolicy
from tests.support.processes.waiting import TIMEOUT


def test_pauses_grow_and_are_bounded():
    patience = RetryPolicy(9, 1.0)
    for attempt, longest in ((1, 1), (2, 2), (5, 16), (12, 60)):
        for _ in range(50):
            assert longest / 2 <= patience.seconds_before(attempt, None) <= longest
    assert min(patience.seconds_before(1, None) for _ in range(50)) < 0.75 < max(patience.seconds_before(1, None) for _ in range(50)), (
        "left to chance"
    )
    assert 30 <= patience.seconds_before(1, 30.0) <= 30
    assert patience.seconds_before(1, 1e6) == 600


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_requests_are_spread_over_the_minute():
    clock = Clock()
    pace = RateLimiter(120, 0, clock)
    assert [pace.reserve(1000) for _ in range(4)] == pytest.approx([0, 0.5, 1.0, 1.5])
    clock.now += 10
    assert [pace.reserve(1) for _ in range(2)] == pytest.approx([0, 0.5])


def test_tokens_are_what_holds_up_where_they_are_fewer():
    pace = RateLimiter(600, 6000, Clock())
    assert [pace.reserve(200) for _ in range(3)] == pytest.approx([0, 2.0, 4.0])
    pace.correct(-300)  # they were 100 each
    assert pace.reserve(10) == pytest.approx(3.0)
    assert pace.reserve(1) == pytest.approx(3.1)  # ten requests a second


def test_what_the_server_asks_for_holds_for_everybody():
    pace = RateLimiter(0, 0, Clock())
    assert [pace.reserve(10**9) for _ in range(2)] == [0, 0]
    pace.pause(7)
    assert pace.reserve(1) == pytest.approx(7)
    pace.pause(2)
    assert pace.reserve(1) == pytest.approx(7), "a shorter rest ends no longer one"
    pace.pause(1e6)
    assert pace.reserve(1) == pytest.approx(600)


def test_more_tokens_than_were_reserved_hold_up_ten_minutes_at_most():
    pace = RateLimiter(0, 60, Clock())
    assert pace.reserve(1) == 0
    pace.correct(10)
    assert pace.reserve(1) == pytest.approx(11)
    pace.correct(10**6)
    assert pace.reserve(100) == pytest.approx(600)
    pace.correct(10)
    assert pace.reserve(1) == pytest.approx(700), "what was reserved beyond them stays"


def test_a_limit_over_all_runs_stands_for_that_of_the_run_where_the_price_is_known():
    with pytest.raises(SpendingLimitError):
        Budget(Price(1.0, 1.0), 1.0, RunLimit(0.5)).hold(0.75)
    unpriced = Budget(None, 1.0, RunLimit(0.5))
    assert unpriced.holds(unpriced.hold(0.75)) and unpriced.room() == 0.25 and unpriced.price.dollars(10, 10) == 0


def test_a_cap_is_never_passed_whatever_is_on_its_way():
    budget = Budget(Price(1.0, 2.0), 1.0)
    assert budget.price.dollars(1_000_000, 250_000) == pytest.approx(1.5)
    first = budget.hold(0.6)
    later = []
    waiter = threading.Thread(target=lambda: later.append(budget.hold(0.6)))
    waiter.start()  # must wait: the first may still cost all it may
    waiter.join(0.05)
    assert waiter.is_alive() and not later
    budget.settle(first, 0.1)
    waiter.join(TIMEOUT)
    assert later and later[0] != first
    budget.settle(later[0], 0.5)
    with pytest.raises(SpendingLimitError, match=r"max_spend = \$1, \$0\.6000 spent"):
        budget.hold(0.5)
    assert budget.spent == pytest.approx(0.6)
