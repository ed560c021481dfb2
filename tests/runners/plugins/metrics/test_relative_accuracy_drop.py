import numpy as np
import pytest

from qualm.runners.plugins.metrics.relative_accuracy_drop import relative_accuracy_drop

CORRECT = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 0.5, 0.0, 0.0])
MISLEADING = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])


def test_by_hand():
    """3/4 on normal images, 3/8 on misleading ones: half is lost; in the second resample 1 and 1/2."""
    weights = np.array([[1.0] * 8, [1, 1, 0, 0, 1, 0, 1, 0]])
    np.testing.assert_allclose(relative_accuracy_drop(CORRECT, MISLEADING, weights), [0.5, 0.5])
    assert relative_accuracy_drop(CORRECT, 1 - MISLEADING, weights[:1])[0] == pytest.approx((3 / 8 - 3 / 4) / (3 / 8))
