"""Venn-Abers against isotonic regressions of scikit-learn, two for every answer, and against the package `venn-abers`."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.plugins.calibrators.venn_abers import interval, venn_abers


def refitted(score, right, drawn, at):
    """(2, m): isotonic regression with each answer added, as wrong and as right."""
    ends = np.empty((2, len(at)))
    for label in (0, 1):
        for j, one in enumerate(at):
            model = IsotonicRegression().fit(np.append(score, one), np.append(right, label), np.append(drawn, 1.0))
            ends[label, j] = model.predict([one])[0]
    return ends


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("digits", [0, 1, 8])
def test_each_answer_is_added_as_wrong_and_as_right(seed, digits):
    rng = np.random.default_rng([seed, digits])
    n = int(rng.integers(2, 50))
    score, right = rng.normal(size=n).round(digits), rng.choice([0.0, 0.5, 1.0], n)
    counts = np.vstack([np.ones(n), rng.integers(0, 3, (2, n))]).astype(float)
    counts[:, 0] += 1
    at = np.r_[score[:4], rng.normal(size=4) * 2, -9.0, 9.0]
    found = interval(score, right, Weights(counts, np.arange(n)), at)
    merged = venn_abers(score, right, Weights(counts, np.arange(n)), at)
    for b, drawn in enumerate(counts):
        there = drawn > 0
        p0, p1 = refitted(score[there], right[there], drawn[there], at)
        np.testing.assert_allclose(found[:, b], [p0, p1], atol=1e-12)
        np.testing.assert_allclose(merged[b], p1 / (1 - p0 + p1), atol=1e-12)


def test_two_answers_by_hand():
    score, right = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    p0, p1 = interval(score, right, np.ones((1, 2)), np.array([-1.0, 0.0, 0.5, 1.0, 2.0]))[:, 0]
    np.testing.assert_allclose(p0, [0, 0, 0, 1 / 2, 1 / 2])
    np.testing.assert_allclose(p1, [1 / 2, 1 / 2, 1, 1, 1])


@pytest.mark.parametrize(
    ("score", "right"),
    [
        (range(4), [0.0, 1, 0, 0]),
        (range(5), [1.0, 1, 1, 0, 1]),
        (range(5), [0.0, 0.2, 0.1, 1, 0.3]),
        (range(4), [0.1, 1, 0.3, 1]),
        ([0, 1, 1, 1, 1, 2, 2, 3, 3], [0.0, 0.5, 0.5, 1, 1, 1, 1, 1, 1]),
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0.0, 0, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1]),
    ],
)
def test_few_answers_are_between_0_and_1_however_sums_are_rounded(score, right):
    score, right, one = np.array(score) * 1.0, np.array(right), np.ones(len(right))
    found = interval(score, right, one[None], score)[:, 0]
    np.testing.assert_allclose(found, refitted(score, right, one, score), atol=1e-12)
    assert found.min() >= 0 and found.max() <= 1


def test_the_interval_narrows_with_what_is_known_and_never_closes_to_0_or_1():
    widths = []
    for n in (20, 160, 1200):
        rng = np.random.default_rng(n)
        p = rng.random(n)
        score, right = np.log(p / (1 - p)), (rng.random(n) < p) * 1.0
        p0, p1 = interval(score, right, np.ones((1, n)), np.linspace(-2, 2, 41))[:, 0]
        assert (p0 < p1).all()
        widths.append((p1 - p0).mean())
        merged = venn_abers(score, right, np.ones((1, n)), np.array([-30.0, 30.0]))[0]
        assert 0 < merged[0] < merged[1] < 1
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_the_package_says_the_same():
    package = pytest.importorskip("venn_abers")
    rng = np.random.default_rng(0)
    score, at = rng.random(500), rng.random(300)
    right = (rng.random(500) < score) * 1.0
    model = package.VennAbers()
    model.fit(np.column_stack([1 - score, score]), right.astype(int))
    merged, ends = model.predict_proba(np.column_stack([1 - at, at]))
    np.testing.assert_allclose(interval(score, right, np.ones((1, 500)), at)[:, 0].T, ends, atol=1e-12)
    np.testing.assert_allclose(venn_abers(score, right, np.ones((1, 500)), at)[0], merged[:, 1], atol=1e-12)


def test_memory_that_was_used_before_is_not_read():
    """Warnings about numbers that nobody had given came and went with it."""
    used = [np.full((3, 6), np.inf) for _ in range(32)]
    del used
    with np.errstate(all="raise"):
        venn_abers(
            np.array([0.1, 0.2, 0.3, 0.4]),
            np.array([0.0, 1, 0, 1]),
            np.array([[1.0, 1, 1, 1], [0, 0, 0, 2], [2, 1, 0, 1]]),
            np.array([0.2]),
        )
