import numpy as np
import pytest

from qualm.runners.plugins.metrics.hallucination_rate import hallucination_rate

ONE = np.ones((1, 6))
CLEAN = np.array([1.0, 1, 1, 1, 0, 0.5])
PERTURBED = np.array([0.0, 1, 0, 0.5, 0, 0])


def test_by_hand():
    assert hallucination_rate(PERTURBED, CLEAN, ONE)[0] == pytest.approx(3 / 6)
    assert hallucination_rate(PERTURBED, CLEAN, ONE, only_clean_correct=True)[0] == pytest.approx(3 / 5)
    assert hallucination_rate(PERTURBED, CLEAN, ONE, right_from=1.0)[0] == pytest.approx(3 / 6)
    assert hallucination_rate(PERTURBED, CLEAN, ONE, right_from=1.0, only_clean_correct=True)[0] == pytest.approx(3 / 4)
