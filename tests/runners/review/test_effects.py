import math

import numpy as np
import PIL.Image
import pytest
from statsmodels.stats.proportion import proportion_confint

from qualm.runners.review.effects import (
    dissimilarity,
    distance_goal,
    mean_reading,
    psnr,
    share_goal,
    share_reading,
    squared_error,
)


def picture(level, size=(24, 20)):
    return PIL.Image.new("RGB", size, (level, level, level))


def test_distances_of_pictures_by_hand():
    assert squared_error(picture(0), picture(255)) == 1.0 and squared_error(picture(10), picture(10)) == 0.0
    assert squared_error(picture(10), picture(61)) == pytest.approx((51 / 255) ** 2)
    noise = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8))
    assert dissimilarity(noise, noise) == 0.0 and 0.5 < dissimilarity(noise, picture(128)) < 2


def test_decibels():
    assert psnr(0.01) == 20.0 and psnr(1.0) == 0.0 and psnr(0.0) == math.inf
    goal = distance_goal("psnr", 30)
    assert goal.target == pytest.approx(0.001) and goal.display(goal.target) == pytest.approx(30) and goal.slug == "psnr-30"
    assert share_goal(0.2).slug == "share-0.2" and distance_goal("1-ssim", 0.5).display(0.5) == 0.5


@pytest.mark.parametrize(
    "metric, value, message",
    [
        ("mse", 1, "expected a distance of 1-ssim, psnr, got 'mse'"),
        ("psnr", 0, "decibels in"),
        ("psnr", 100, "decibels in"),
        ("1-ssim", 0, r"a value in \(0, 2\)"),
        ("1-ssim", 2, r"a value in \(0, 2\)"),
    ],
)
def test_goals_that_cannot_be(metric, value, message):
    with pytest.raises(ValueError, match=message):
        distance_goal(metric, value)


@pytest.mark.parametrize("k, n", [(0, 10), (3, 10), (10, 10)])
def test_shares_have_wilsons_interval(k, n):
    reading = share_reading(2.0, [True] * k + [False] * (n - k), 4)
    assert (reading.value, reading.n, reading.left_out) == (k / n, n, 4)
    assert (reading.low, reading.high) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-3)


def test_of_nothing_everything_is_possible():
    reading = share_reading(2.0, [], 3)
    assert math.isnan(reading.value) and (reading.low, reading.high, reading.n, reading.left_out) == (0.0, 1.0, 0, 3)
    reading = mean_reading(2.0, [], 3)
    assert math.isnan(reading.value) and (reading.low, reading.high) == (0.0, math.inf)


def test_means_have_the_normal_interval_cut_at_zero():
    values = [0.0, 0.4, 0.5]
    reading = mean_reading(1.0, values, 0)
    half = 1.96 * np.std(values, ddof=1) / math.sqrt(3)
    assert reading.value == pytest.approx(0.3) and reading.high == pytest.approx(0.3 + half) and reading.low == max(0.0, 0.3 - half)
    two = mean_reading(1.0, [0.25, 0.75], 0)
    assert (two.low, two.high) == pytest.approx((0.01, 0.99)), "0.5 and 1.96 of a standard error of 0.25"
    assert mean_reading(1.0, [10.0, 10.2, 10.4], 0).low == pytest.approx(10.2 - 1.96 * 0.2 / math.sqrt(3))
