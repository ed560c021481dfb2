"""What every nonconformity score keeps, whoever wrote it."""

import numpy as np
import pytest

from qualm.registry.plugins import registry


@pytest.fixture(params=registry.names("conformal"))
def score(request):
    """Of a randomised one with a number that the row itself says."""
    function = registry.load("conformal", request.param)
    if "uniform" not in registry.get("conformal", request.param).reads:
        return function
    return lambda probs: function(probs, probs[:, 0] * 7 % 1)


@pytest.fixture
def probs():
    made = np.random.default_rng(0).dirichlet(np.ones(5), size=30)
    made[::3, 3:] = np.nan
    made[::3] /= np.nansum(made[::3], axis=1, keepdims=True)
    return made


def test_a_row_depends_on_itself_alone(score, probs):
    whole = score(probs)
    assert whole.shape == probs.shape
    np.testing.assert_allclose(np.concatenate([score(probs[i : i + 1]) for i in range(30)]), whole)


def test_padding_is_nan_and_changes_nothing(score, probs):
    whole = score(probs)
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(probs))
    np.testing.assert_allclose(score(probs[::3, :3]), whole[::3, :3])


def test_likelier_options_never_fit_worse(score, probs):
    for row, scores in zip(probs, score(probs), strict=True):
        order = np.argsort(-row[~np.isnan(row)])
        assert (np.diff(scores[~np.isnan(row)][order]) >= -1e-12).all()
