import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.registry.plugins.columns import columns
from qualm.runners.plugins.estimators.pointwise_mutual_information import pointwise_mutual_information


def test_worked_examples():
    own = [np.log([0.9, 0.5, 0.8]), np.log([0.7, 0.5, 0.9])]
    prior = [np.log([0.2, 0.5, 0.4]), np.log([0.3, 0.4, 0.6])]
    np.testing.assert_allclose(pointwise_mutual_information(own, prior), [-0.732408, -0.491969], atol=1e-6)


def test_edges():
    found = pointwise_mutual_information(
        [np.empty(0), np.array([-1.0, -1.0]), np.array([-2.0])], [np.empty(0), np.array([-np.inf, -1.0]), np.array([-1.0])]
    )
    np.testing.assert_array_equal(found, [np.nan, -np.inf, 1.0])


def test_a_prior_of_other_tokens_is_no_prior():
    with pytest.raises(ValueError, match="row 1: 2 log-probabilities of the answer's tokens, 1 without both"):
        pointwise_mutual_information([np.zeros(1), np.zeros(2)], [np.zeros(1), np.zeros(1)])


@pytest.mark.parametrize("without", ["both", "image", "question"])
def test_the_prior_that_is_read(without):
    plugin = registry.get("estimators", "pointwise_mutual_information")
    expected = {"token_logprobs": "token_logprobs", "prior_logprobs": f"logprobs_without_{without}"}
    assert columns(plugin, {"without": without}) == expected
