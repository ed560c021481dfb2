import numpy as np
import pytest

from qualm.runners.plugins.metrics.uncertainty_aware_accuracy import uncertainty_aware_accuracy

ONE = np.ones((1, 3))
RIGHT = np.array([1.0, 0, 0])
FOUR = np.full(3, 4.0)
NONE = np.zeros(3)


@pytest.mark.parametrize(("sizes", "expected"), [([1, 1, 1], 0.6667), ([1, 2, 3], 0.3333)])
def test_worked_example(sizes, expected):
    assert uncertainty_aware_accuracy(RIGHT, np.array(sizes, float), FOUR, NONE, ONE)[0] == pytest.approx(expected, abs=1e-4)


def test_published_cell():
    """LLaVA-v1.5-7B on OODCV: accuracy .679325 and LAC set size 2.006329 give .829375."""
    ones = np.ones(1)
    found = uncertainty_aware_accuracy(ones * 0.679325, ones * 2.006329, ones * 6, ones * 0, np.ones((1, 1)))
    assert found[0] == pytest.approx(0.829375, abs=1e-6)


def test_undefined_where_all_sets_are_empty_or_no_row_is_left():
    found = uncertainty_aware_accuracy(RIGHT, NONE, FOUR, NONE, np.array([[1.0, 1, 1], [0, 0, 0]]))
    assert np.isnan(found).all()
