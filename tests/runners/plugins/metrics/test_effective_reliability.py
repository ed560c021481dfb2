import numpy as np
import pytest

from qualm.runners.plugins.metrics.effective_reliability import effective_reliability
from qualm.runners.scoring.bootstrap import Bootstrap

ACC, CONFIDENCE = np.array([1, 0.6, 0, 0.3, 0]), np.array([0.9, 0.8, 0.7, 0.6, 0.5])
NEVER, ONE = np.zeros(5), np.ones((1, 5))


@pytest.mark.parametrize(("cost", "all_answered"), [(1.0, -0.02), (10.0, -3.62), (100.0, -39.62)])
def test_worked_example(cost, all_answered):
    chosen = effective_reliability(CONFIDENCE, ACC, NEVER, NEVER, ONE, cost=cost, threshold="same")
    assert chosen[0] == pytest.approx(0.32)
    assert effective_reliability(CONFIDENCE, ACC, NEVER, NEVER, ONE, cost=cost, threshold="none")[0] == pytest.approx(all_answered)


def test_best_possible_is_the_mean_of_what_is_right():
    order = np.argsort(-ACC)
    surest = np.empty(5)
    surest[order] = [0.9, 0.8, 0.7, 0.6, 0.5]
    assert effective_reliability(surest, ACC, NEVER, NEVER, ONE, threshold="same")[0] == pytest.approx(0.38)


def test_refusals_are_neither_paid_nor_punished():
    declined = np.array([1.0, 0, 1, 0, 1])
    expected = (0.6 + 0.3) / 5
    assert effective_reliability(CONFIDENCE, ACC, declined, NEVER, ONE, cost=10.0, threshold="none")[0] == pytest.approx(expected)


def by_hand(confidence, correct, declined, fold, cost):
    """The definition: for each half, the threshold is chosen on the other."""
    worth = np.where(correct > 0, correct, -cost) * (1 - declined)
    total = 0.0
    for half in (0, 1):
        seen, mine = fold != half, fold == half
        offered = np.unique(confidence[seen])
        sums = [worth[seen & (confidence >= t)].sum() for t in offered]
        best = min(t for t, s in zip(offered, sums, strict=True) if s >= max(sums) - 1e-9)
        total += worth[mine & (confidence >= best)].sum()
    return total / len(worth)


@pytest.mark.parametrize("cost", [1.0, 10.0])
def test_other_half_against_the_definition_in_every_resample(cost):
    rng = np.random.default_rng(2)
    n = 60
    confidence, correct = rng.integers(0, 15, n) / 15, rng.integers(0, 3, n) / 2
    declined, fold = rng.integers(0, 5, n) // 4 * 1.0, np.arange(n) // 3 % 2 * 1.0
    (weights,) = Bootstrap(np.arange(n) // 3, 25, 4).blocks()
    found = effective_reliability(confidence, correct, declined, fold, weights, cost=cost)
    for value, row in zip(found, np.asarray(weights).astype(int), strict=True):
        d = np.repeat(np.arange(n), row)
        assert value == pytest.approx(by_hand(confidence[d], correct[d], declined[d], fold[d], cost))
