"""A few cells of the long simulation (`make simulate`): 95% intervals hold the truth about that often, and far too few do not."""

import pytest
from threadpoolctl import threadpool_limits

from tests.simulation.intervals import simulate

SAMPLES = 100


@pytest.mark.parametrize(
    ("kind", "n", "groups", "value"),
    [("answers", 100, 10, 0.9), ("answers", 300, 50, 0.99), ("ranking", 100, 50, 0.9), ("options", 100, 50, 0.5), ("change", 100, 50, 0.5)],
)
def test_intervals_hold_the_truth(kind, n, groups, value):
    with threadpool_limits(1):
        measured = simulate(kind, n, groups, value, SAMPLES, seed=1)
    for one in measured:
        if one.metric == "confidence_weighted_accuracy" and value == 0.99:
            continue  # few wrong answers carry all of its spread: the page names it
        assert one.printed == SAMPLES, one
        assert one.share >= 0.87, one
        assert one.share < 1 or one.metric == "coverage", "so wide that they say nothing"


def test_few_groups_and_perfect_answers_have_intervals_of_some_width_or_none():
    for one in simulate("answers", 100, 10, 0.99, 30, seed=2):
        assert one.printed == 0 or one.width > 0
    assert all(one.printed == 0 for one in simulate("answers", 60, 4, 0.5, 5))
