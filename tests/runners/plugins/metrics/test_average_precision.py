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


def test_by_hand():
    # most uncertain first: wrong, right, wrong: 1/2 * 1/1 + 1/2 * 2/3
    args = np.array([0.9, np.inf, 0.5]), np.array([1.0, 0, 0])
    assert average_precision(*args, np.ones((1, 3)))[0] == pytest.approx(1 / 2 + 1 / 3)
    assert average_precision(*args, np.ones((1, 3)), positive="right")[0] == pytest.approx(1 / 2)
    half = np.array([1.0, 2]), np.array([0.5, 0.0])
    assert average_precision(*half, np.ones((1, 2)), right_from=1.0)[0] == 1.0
