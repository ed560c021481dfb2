import numpy as np
import pytest

from qualm.runners.plugins.metrics.best_f1_floor import best_f1_floor


@pytest.mark.parametrize(("positive", "negative", "value"), [(150, 150, 2 / 3), (60, 80, 0.6), (1, 1, 2 / 3)])
def test_of_the_paper_s_subsets(positive, negative, value):
    uncertain = np.repeat([1.0, 0.0], [positive, negative])
    assert best_f1_floor(np.zeros(positive + negative), uncertain, np.ones((1, positive + negative)))[0] == pytest.approx(value)
