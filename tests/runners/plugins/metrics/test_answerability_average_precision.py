import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from qualm.runners.plugins.metrics.answerability_average_precision import answerability_average_precision


@pytest.mark.parametrize("levels", [4, 1000])
def test_against_scikit_learn_with_ties_and_weights(levels):
    rng = np.random.default_rng(0)
    uncertainty, answerable = rng.integers(0, levels, 200) / 10, (rng.random(200) < 0.7) * 1.0
    weights = rng.integers(0, 3, (5, 200)) * 1.0
    expected = [average_precision_score(1 - answerable, uncertainty, sample_weight=w) for w in weights]
    np.testing.assert_allclose(answerability_average_precision(uncertainty, answerable, weights), expected)
