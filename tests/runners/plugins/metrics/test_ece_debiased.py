"""Against sums over pairs written out, and where the truth is known."""

import numpy as np
import pytest

from qualm.runners.plugins.metrics.ece import ece
from qualm.runners.plugins.metrics.ece_debiased import ece_debiased


def value(confidence, correct, group=None, calibration=None, **args):
    n = len(confidence)
    group = np.arange(n) if group is None else np.asarray(group)
    columns = (np.asarray(confidence), np.asarray(correct, dtype=float), np.zeros(n) if calibration is None else calibration, group * 1.0)
    return ece_debiased(*columns, np.ones((1, n)), **args)[0]


def test_worked_example():
    """Bin [.5, 1]: e = .4, -.6, .2, its pairs -.24, .08, -.12, mean -.28/3. Bin [0, .5): e = -.3, -.3, one pair .09."""
    confidence, correct = [0.6, 0.6, 0.8, 0.3, 0.3], [1, 0, 1, 0, 0]
    square = 3 / 5 * (-0.28 / 3) + 2 / 5 * 0.09
    assert value(confidence, correct, bins=2, squared=True) == pytest.approx(square)
    assert square < 0 and value(confidence, correct, bins=2) == 0
    assert value([0.3, 0.3], [0, 0], bins=2) == pytest.approx(0.3)


@pytest.mark.parametrize("per_group", [1, 3])
def test_against_pairs_written_out(per_group):
    rng = np.random.default_rng(per_group)
    n, bins = 60, 5
    confidence, correct, group = rng.random(n), rng.integers(0, 3, n) / 2, np.arange(n) // per_group
    gap, place = correct - confidence, (confidence * bins).astype(int)
    expected = 0.0
    for b in range(bins):
        of = np.flatnonzero(place == b)
        products = [gap[i] * gap[j] for i in of for j in of if group[i] != group[j]]
        expected += len(of) / n * np.mean(products)
    assert value(confidence, correct, group, bins=bins, squared=True) == pytest.approx(expected)
    half = np.repeat([0.0, 1.0], n // 2)
    test = value(confidence[: n // 2], correct[: n // 2], group[: n // 2], bins=bins, squared=True)
    assert value(confidence, correct, group, half, bins=bins, squared=True) == pytest.approx(test)
    assert value(confidence, correct, group, half, bins=bins, squared=True, rows="all") == pytest.approx(expected)


def test_bins_without_a_pair_of_groups_are_left_out():
    assert value([0.3, 0.3, 0.9], [0, 0, 0], bins=2) == pytest.approx(0.3)
    assert np.isnan(value([0.3, 0.9], [0, 1], bins=2))
    assert np.isnan(value([0.3, 0.3], [0, 1], [7, 7], bins=2))


def simulated(samples, n, copies, off):
    """Means of the plain error, the debiased one and its square, over samples of answers as often right as their confidence less `off`."""
    rng, found = np.random.default_rng(0), []
    for _ in range(samples):
        confidence = np.repeat(rng.uniform(0.5, 1, n), copies)
        correct = np.repeat(rng.random(n), copies) < confidence - off
        group, total = np.repeat(np.arange(n), copies), n * copies
        plain = ece(confidence, correct * 1.0, np.zeros(total), np.ones((1, total)))[0]
        found.append([plain, value(confidence, correct, group), value(confidence, correct, group, squared=True)])
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(samples)


@pytest.mark.parametrize("copies", [1, 4])
def test_a_calibrated_model_has_none_on_average(copies):
    """300 questions in 15 bins, or each four times in a group: the plain error is .05."""
    (plain, root, square), (_, _, error) = simulated(100, 300, copies, 0.0)
    assert 0.045 < plain < 0.056 and root < 0.022
    assert abs(square) < 3 * error and error < 4e-4


@pytest.mark.parametrize("off", [0.1, 0.3])
def test_an_error_that_is_there_is_found(off):
    (_, root, square), (_, _, error) = simulated(75, 300, 1, off)
    assert square == pytest.approx(off**2, abs=3 * error)
    assert root == pytest.approx(off, abs=0.01)
