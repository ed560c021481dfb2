import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from qualm.runners.plugins.metrics.average_precision import average_precision


@pytest.mark.parametrize("levels", [4, 1000])
@pytest.mark.parametrize("positive", ["wrong", "right"])
def test_against_scikit_learn_with_ties_and_weights(levels, positive):
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.integers(0, levels, 200) / 10, rng.choice([0.0, 0.5, 1.0], 200)
    weights = rng.integers(0, 3, (5, 200)) * 1.0
    right = correct >= 0.5
    sought = (~right, uncertainty) if positive == "wrong" else (right, -uncertainty)
    expected = [average_precision_score(*sought, sample_weight=w) for w in weights]
    np.testing.assert_allclose(average_precision(uncertainty, correct, weights, positive=positive), expected)
