import numpy as np

from qualm.registry.plugins.columns import columns, signals
from qualm.registry.plugins.registry import get
from qualm.runners.plugins.estimators.p_true_sampling import p_true_sampling


def test_worked_example_and_edges():
    np.testing.assert_allclose(p_true_sampling(np.array([0.7, 1.0, 0.0, np.nan])), [0.356675, 0.0, np.inf, np.nan], atol=1e-6)


def test_wanting_it_is_wanting_draws():
    read = columns(get("estimators", "p_true_sampling"), {})
    assert signals(c for c in read.values() if c) == {"p_true_sampling", "draws"}
