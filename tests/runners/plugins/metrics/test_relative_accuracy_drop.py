import numpy as np
import pytest

from qualm.runners.plugins.metrics.relative_accuracy_drop import relative_accuracy_drop, why_undefined

CORRECT = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.0, 0.0])
MISLEADING = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])


def test_by_hand():
    """3/4 on normal images, 3/8 on misleading ones: half is lost; in the second resample 1 and 1/2."""
    weights = np.array([[1.0] * 8, [1, 1, 0, 0, 1, 0, 1, 0]])
    np.testing.assert_allclose(relative_accuracy_drop(CORRECT, MISLEADING, weights), [0.5, 0.5])
    assert relative_accuracy_drop(CORRECT, 1 - MISLEADING, weights[:1])[0] == pytest.approx((3 / 8 - 3 / 4) / (3 / 8))


def test_weights_are_repetitions():
    weights = np.array([3, 1, 0, 2, 1, 1, 4, 0])
    rows = np.repeat(np.arange(8), weights)
    repeated = relative_accuracy_drop(CORRECT[rows], MISLEADING[rows], np.ones((1, len(rows))))
    assert relative_accuracy_drop(CORRECT, MISLEADING, weights[None] * 1.0)[0] == pytest.approx(repeated[0])


@pytest.mark.parametrize(
    ("correct", "misleading", "why"),
    [([0, 0, 1], [0, 0, 1], "no clear question is answered right"), ([1, 1, 1], [1, 1, 1], None), ([1, 0, 1], [0, 0, 0], None)],
)
def test_undefined(correct, misleading, why):
    columns = np.array(correct) * 1.0, np.array(misleading) * 1.0
    assert np.isnan(relative_accuracy_drop(*columns, np.ones((1, 3)))[0])
    assert why_undefined(*columns) and why in (None, why_undefined(*columns))
