import numpy as np
import pytest

from qualm.runners.plugins.metrics.confidence_target import confidence_target
from qualm.runners.plugins.metrics.effective_reliability import effective_reliability

ONES = np.ones((1, 6))
CORRECT = np.array([1.0, 1.0, 0.5, 0.0, 0.0, 1.0])
ABSTAINS = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("t", "expected"),
    [(0.0, (1 + 1 + 0.5) / 6), (0.5, (1 + 1 + 0 - 1) / 6), (0.75, (1 + 1 + (0.5 - 1.5) - 3) / 6), (0.9, (1 + 1 + (0.5 - 4.5) - 9) / 6)],
)
def test_by_hand(t, expected):
    assert confidence_target(CORRECT, ABSTAINS, ONES, t=t)[0] == pytest.approx(expected)


def test_an_answer_pays_exactly_above_the_target():
    """Of answers right with probability p, the mean has the sign of p - t, and always abstaining scores 0."""
    for t in (0.25, 0.5, 0.8):
        for right in range(21):
            correct = np.repeat([1.0, 0.0], [right, 20 - right])
            value = confidence_target(correct, np.zeros(20), np.ones((1, 20)), t=t)[0]
            assert value == pytest.approx((right / 20 - t) / (1 - t))
    assert confidence_target(CORRECT, np.ones(6), ONES, t=0.9)[0] == 0.0


def test_without_half_right_answers_it_is_effective_reliability_of_refusals_in_words():
    correct, none = np.round(CORRECT), np.zeros(6)
    expected = effective_reliability(none, correct, ABSTAINS, none, ONES, cost=3.0, threshold="none")
    np.testing.assert_allclose(confidence_target(correct, ABSTAINS, ONES, t=0.75), expected)
