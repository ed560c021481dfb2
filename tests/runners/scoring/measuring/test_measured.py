import numpy as np
import pytest

from qualm.runners.scoring.measuring.measured import Measured, mean_of


def of_score(value, resampled, given, n, unscored, rare=""):
    return Measured(value, np.array(resampled), n, unscored, rare=rare, given=np.array(given), groups=9)


def test_undefined_resamples_are_those_without_a_value_where_the_sample_has_one():
    assert Measured(0.5, np.array([0.1, np.nan, np.nan]), 3, 0).undefined == 2
    assert Measured(np.nan, np.array([np.nan]), 0, 3, "no rows").undefined == 0


def test_the_mean_over_scores_is_taken_resample_by_resample():
    one, other = of_score(0.8, [0.7, 0.9], [0.8, 0.8], 10, 1), of_score(0.6, [0.5, 0.9], [0.6, 0.4], 9, 2, "too few of one kind")
    both = mean_of([one, other])
    assert both.value == pytest.approx(0.7)
    assert both.resampled == pytest.approx([0.6, 0.9]) and both.given == pytest.approx([0.7, 0.6])
    assert (both.n, both.n_unscored, both.rare, both.groups) == (9, 2, "too few of one kind", 9)
    assert mean_of([one]) is one


def test_scores_that_were_resampled_differently_have_no_mean_resamples():
    both = mean_of([of_score(0.8, [0.7, 0.9], [0.8, 0.8], 10, 0), of_score(0.6, [0.5], [0.5], 10, 0)])
    assert len(both.resampled) == 0 and both.given is None
