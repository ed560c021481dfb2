"""Drawing: random, repeatable, even over strata."""

import hashlib
from collections import Counter

from qualm.runners.inference.audit import Lots, split_evenly


def drawn(seed, order, total=20, most=20):
    lots = Lots(seed, most)
    for i in order:
        lots.add("big" if i % 10 else "small", bytes([i]), i)
    return lots.draw(total)


def test_shares_are_as_even_as_strata_allow():
    assert split_evenly({"a": 3, "b": 100, "c": 100}, 23) == {"a": 3, "b": 10, "c": 10}
    assert split_evenly({"a": 3, "b": 100}, 1000) == {"a": 3, "b": 100} and split_evenly({}, 5) == {}
    assert sum(split_evenly(dict.fromkeys("abcdefg", 9), 5).values()) == 5, "fewer than strata"


def test_the_same_seed_draws_the_same_in_whatever_order_and_however_often_it_is_met():
    once = drawn(3, range(100))
    assert once == drawn(3, reversed(range(100))) == drawn(3, [*range(100), *range(50)])
    assert len(once["small"]) == len(once["big"]) == 10 and set(once["small"]) == set(range(0, 100, 10))
    assert drawn(4, range(100))["big"] != once["big"]


def test_every_item_is_as_likely():
    counts = Counter(i for seed in range(600) for i in drawn(seed, range(1, 10), total=3)["big"])
    assert sum(counts.values()) == 1800 and all(150 < n < 250 for n in counts.values()), counts  # 200 expected, deviation 11.5


def test_those_of_the_smallest_ranks_are_kept_and_drawn_first():
    def rank(i):
        return hashlib.sha256(b"5 " + bytes([i])).digest()

    for most, total in ((1, 9), (4, 9), (4, 3), (20, 9), (200, 9)):
        lots = Lots(5, most)
        for i in [*range(40), *range(40)]:
            lots.add("all", bytes([i]), i)
        assert lots.draw(total) == {"all": sorted(range(40), key=rank)[: min(most, total)]}
    assert lots.draw(0) == {} and Lots(5, 3).draw(4) == {}
