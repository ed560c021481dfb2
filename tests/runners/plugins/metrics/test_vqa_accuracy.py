import numpy as np

from qualm.runners.plugins.metrics.vqa_accuracy import vqa_accuracy


def test_mean_of_the_judges_ratings():
    np.testing.assert_allclose(vqa_accuracy(np.array([0.3, 0.9, 0.0]), np.array([[1.0, 1, 1], [2, 0, 1]])), [0.4, 0.2])
