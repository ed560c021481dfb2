import numpy as np

from qualm.runners.plugins.estimators.image_removed_divergence import image_removed_divergence


def test_worked_example_and_edges():
    rows = [np.array([0.3, 0.1]), np.array([0.0]), np.array([])]
    np.testing.assert_allclose(image_removed_divergence(rows), [-0.2, 0.0, np.nan])
    assert not np.signbit(image_removed_divergence(rows)[1])
