import numpy as np

from qualm.runners.plugins.metrics._yes_no import positives, rounded, share

SAID, TRUTH = np.array([1.0, 1.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.0, 1.0])


def test_positives_of_either_answer():
    assert [c.tolist() for c in positives(SAID, TRUTH, "yes")] == [[1, 1, 0, 0], [1, 0, 0, 1]]
    assert [c.tolist() for c in positives(SAID, TRUTH, "no")] == [[0, 0, 1, 0], [0, 1, 1, 0]]


def test_shares_are_exact_or_ambers():
    part, whole = np.array([1.0, 0.0]), np.array([3.0, 0.0])
    exact = share(part, whole, "exact")
    assert exact[0] == 1 / 3 and np.isnan(exact[1])
    np.testing.assert_allclose(share(part, whole, "amber"), [0.333, 0], atol=1e-12)
    assert share(np.array([500.0]), np.array([500.0]), "amber").tolist() == [1.0]


def test_rounding_is_to_a_tenth_of_a_per_cent():
    np.testing.assert_allclose(rounded(np.array([0.12345, 0.9996, 0.0006])), [0.123, 1, 0.001], atol=1e-12)
