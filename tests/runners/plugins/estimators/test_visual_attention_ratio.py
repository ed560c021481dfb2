import numpy as np
import pytest

from qualm.runners.plugins.estimators.visual_attention_ratio import visual_attention_ratio


def test_worked_example():
    assert visual_attention_ratio([np.array([0.5, 0.7])])[0] == pytest.approx(0.4)
