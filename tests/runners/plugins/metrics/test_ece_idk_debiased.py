"""`ece_idk_debiased` is `ece_debiased` of the unanswerable rows."""

import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece_debiased import ece_debiased
from qualm.runners.plugins.metrics.ece_idk_debiased import ece_idk_debiased


@pytest.mark.parametrize("squared", [False, True])
def test_it_is_the_bias_corrected_error_of_the_unanswerable_rows(squared):
    rng = np.random.default_rng(2)
    confidence, correct, idk, group = rng.random(60), rng.choice([0, 0.5, 1], 60), np.arange(60) % 3 == 0, np.arange(60) // 2.0
    found = ece_idk_debiased(confidence, correct, idk * 1.0, group, np.ones((1, 60)), bins=3, squared=squared)
    only = (confidence[idk], (correct[idk] > 0) * 1.0, np.zeros(20), group[idk], np.ones((1, 20)))
    assert found == pytest.approx(ece_debiased(*only, bins=3, squared=squared))
