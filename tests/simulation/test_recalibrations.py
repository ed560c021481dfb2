"""A few studies of raw against recalibrated: intervals hold the truth, and what changes nothing is seldom told apart."""

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_limits

from tests.simulation.recalibrations import WORLDS, Told, read, simulate, table, truths_of

STUDIES = 12


def test_truths_of_answers_whose_chance_is_known():
    chance = expit(np.linspace(-3, 3, 5001))
    assert truths_of(chance, chance) == pytest.approx({"brier": (chance * (1 - chance)).mean(), "ece": 0.0})
    off = truths_of(chance, np.clip(chance + 0.02, 0, 1))
    assert off["ece"] == pytest.approx(0.02) and off["brier"] == pytest.approx((chance * (1 - chance)).mean() + 0.02**2)


@pytest.mark.slow
def test_intervals_hold_the_truth_and_no_difference_is_seldom_found():
    with threadpool_limits(1):
        told = simulate("calibrated", STUDIES, 200, 100)
    assert {metric for metric, _ in told} == {"brier", "ece"} and len(told) == 8
    for key, one in told.items():
        assert one.studies == one.printed == STUDIES and one.held >= STUDIES - 2 and one.rejected <= 2, (key, one)


def test_the_table_has_the_lowest_and_the_highest_of_the_calibrators():
    known = {("calibrated", metric, name): Told(0.0, 100, 100, held, 2, 1, 3.0) for metric in ("brier", "ece")
             for name, held in (("platt", 97), ("isotonic", 100))}  # fmt: skip
    assert "| confidence | .97 to 1.00 | .02 | .97 to 1.00 | .02 |" in table(known)


def test_every_world_was_studied():
    known = read()
    assert {key[0] for key in known} == set(WORLDS) and all(one.studies >= 50 for one in known.values())
