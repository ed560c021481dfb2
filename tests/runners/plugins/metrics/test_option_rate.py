import numpy as np
import pytest

from qualm.runners.plugins.metrics.option_rate import option_rate

PREDICTED = np.array([4.0, 0, 4, 5, 1])
OPTIONS = np.array([6.0, 6, 6, 6, 2])
CALIBRATION = np.array([0, 0, 1.0, 0, 0])


@pytest.mark.parametrize(("option", "expected"), [("E", 1 / 3), (4, 1 / 3), ("f", 1 / 3), ("A", 1 / 4), ("G", np.nan)])
def test_over_test_rows_that_have_the_option(option, expected):
    found = option_rate(PREDICTED, OPTIONS, CALIBRATION, np.ones((2, 5)), option=option)
    np.testing.assert_allclose(found, [expected, expected])


def test_a_place_beyond_the_letters():
    found = option_rate(np.array([27.0, 3, 27]), np.array([30.0, 30, 30]), np.zeros(3), np.ones((1, 3)), option=27)
    assert found == pytest.approx(2 / 3)


@pytest.mark.parametrize("option", ["EE", "", -1, "?", "["])
def test_no_such_option(option):
    with pytest.raises(ValueError, match="expected a letter from A to Z or a place"):
        option_rate(PREDICTED, OPTIONS, CALIBRATION, np.ones((1, 5)), option=option)
