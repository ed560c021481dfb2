"""Sampling's share of a variance: by hand, against SciPy's analysis of variance, and by its law."""

import numpy as np
import pytest

from qualm.runners.plugins.metrics.sampling_share import sampling_share
from tests.runners.plugins.metrics.test_sampled_accuracy import ONE, columns


def test_where_questions_are_certain_or_alike():
    certain, none = columns([[1, 1], [0, 0], [1, 1]])
    assert sampling_share(certain, none, ONE) == [0.0]
    alike, variance = columns([[1, 0], [0, 1], [1, 0]])
    assert np.isnan(sampling_share(alike, variance, ONE)).all(), "no question differs from another"
    mean, variance = columns([[1, 0], [0, 1], [1, 1]])
    assert sampling_share(mean, variance, ONE) == [1.0], "less than sampling explains"
    assert np.isnan(sampling_share(mean[:1], variance[:1], ONE[:, :1])).all()


def test_the_share_is_the_reciprocal_of_the_f_statistic():
    """One-way analysis of variance: F = k S^2 / mean(s^2)."""
    from scipy.stats import f_oneway

    rng = np.random.default_rng(3)
    ratings = (rng.random((40, 8)) < rng.random((40, 1))).astype(float)
    assert sampling_share(*columns(ratings), np.ones((1, 40)))[0] == pytest.approx(1 / f_oneway(*ratings).statistic)


def test_more_samples_shrink_sampling_alone():
    """Of questions with chances p: V(p) between, mean p (1 - p) / k of sampling."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0, 1, (20_000, 1))
    for k in (2, 10):
        found = sampling_share(*columns(rng.random((20_000, k)) < p), np.ones((1, 20_000)))[0]
        within = (1 / 6) / k
        assert found == pytest.approx(within / (1 / 12 + within), rel=0.03)
