"""The order of examples: every one once a pass, shares kept in every batch, alike ones together."""

from collections import Counter

from qualm.runners.training.recipe import Mixture


def drawn(mixture, width):
    return [mixture.batch(step, width) for step in range(-(-len(mixture) // width))]


def test_every_example_once_a_pass_in_another_order():
    mixture = Mixture({"": list(range(10))}, {"": 1.0}, 7, 20)
    first, second = mixture.batch(0, 10), mixture.batch(1, 10)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    assert drawn(mixture, 3) == drawn(Mixture({"": list(range(10))}, {"": 1.0}, 7, 20), 3)
    assert drawn(mixture, 3) != drawn(Mixture({"": list(range(10))}, {"": 1.0}, 8, 20), 3)
    assert [len(b) for b in drawn(mixture, 8)] == [8, 8, 4]


def test_shares_hold_in_every_batch():
    pools = {"ours": [("ours", i) for i in range(5)], "other": [("other", i) for i in range(100)]}
    mixture = Mixture(pools, {"ours": 2.0, "other": 1.0}, 7, 60)
    for batch in drawn(mixture, 6):
        assert Counter(name for name, _ in batch) == {"ours": 4, "other": 2}
    assert Counter(e for batch in drawn(mixture, 6) for e in batch if e[0] == "ours") == {("ours", i): 8 for i in range(5)}


def test_alike_examples_come_together():
    pool = [(picture, question) for picture in range(6) for question in range(5)]
    mixture = Mixture({"": pool}, {"": 1.0}, 7, 60, together=2, alike=lambda e: e[0])
    for again in (0, 1):
        order = mixture.batch(again, 30)
        assert sorted(order) == pool
        runs = [sum(order[i][0] == order[j][0] for j in range(max(0, i - 1), min(30, i + 2))) for i in range(30)]
        assert sum(r > 1 for r in runs) >= 24  # of five questions, four have a neighbour at least
    assert mixture.batch(0, 30) != mixture.batch(1, 30)
