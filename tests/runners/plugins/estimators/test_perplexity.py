import numpy as np
import pytest

from qualm.runners.plugins.estimators.perplexity import perplexity

ROW = np.log([0.9, 0.5, 0.8])


@pytest.mark.parametrize(("form", "expected"), [("log", 0.340550), ("exp", 1.405721)])
def test_worked_example(form, expected):
    assert perplexity([ROW, ROW[:1]], form=form)[0] == pytest.approx(expected, abs=1e-6)


def test_value_of_lm_polygraph():
    assert perplexity([np.log([0.7, 0.5, 0.9])])[0] == pytest.approx(0.38506088, abs=1e-8)


@pytest.mark.parametrize("form", ["log", "exp"])
def test_edges(form):
    np.testing.assert_array_equal(perplexity([np.empty(0), np.array([-np.inf, -1.0])], form=form), [np.nan, np.inf])
