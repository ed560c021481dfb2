"""A few cells of the long simulation (`make simulate`): 95% intervals hold the truth about that often, and far too few do not."""

import pytest
from threadpoolctl import threadpool_limits

from tests.simulation.intervals import DIFFERENCE, calibration_null, conformal_null, differences, nearly_all_right, simulate
from tests.simulation.kept import BATCH, Known

SAMPLES = BATCH
KNOWN = Known.read()
WITHHELD = {"ece_adaptive", "fpr_at_tpr"}
"""Without intervals; their tests stand."""


@pytest.mark.parametrize(
    ("kind", "n", "groups", "value"),
    [("answers", 100, 10, 0.9), ("answers", 300, 50, 0.99), ("ranking", 100, 50, 0.9), ("options", 100, 50, 0.5), ("change", 100, 50, 0.5)],
)
def test_intervals_hold_the_truth(kind, n, groups, value):
    with threadpool_limits(1):
        measured = simulate(kind, n, groups, value, SAMPLES, seed=0)
    for one in measured:
        kept = KNOWN[one.metric, n, groups, value].counts[0]
        assert (one.printed, one.held) == kept, f"{one.metric}: its intervals changed; remove its lines of batches.jsonl and make simulate"
        if one.metric in WITHHELD:
            assert one.printed == 0
            continue
        assert one.printed == SAMPLES, one
        assert one.share >= 0.87, one
        assert one.share < 1 or one.metric == "coverage", "so wide that they say nothing"


def test_few_groups_and_perfect_answers_have_intervals_of_some_width_or_none():
    for one in simulate("answers", 100, 10, 0.99, 30, seed=2):
        assert one.printed == 0 or one.width > 0
    assert all(one.printed == 0 for one in simulate("answers", 60, 4, 0.5, 5))


def test_the_error_of_answers_that_are_all_right_may_be_that_of_some_not_seen():
    shares = nearly_all_right(100, 50, 60, 0.005)
    assert shares["all right"] > 0.1 and shares["held"] >= 0.85 and shares["where all are right"] >= 0.85


def test_models_that_are_alike_are_seldom_called_different_by_their_sets():
    with threadpool_limits(1):
        shares = conformal_null(60)
    for name, share in shares.items():
        assert share >= 0.85 if name.startswith("held") else share <= 0.15, (name, share)


@pytest.mark.parametrize("kind", ["answers", "calibrated"])
def test_differences_of_models_that_are_alike(kind):
    with threadpool_limits(1):
        for one in differences(kind, 100, 50, 0.9, SAMPLES, seed=0):
            counted = (one.printed, one.held, one.tested, one.rejected)
            assert one.metric.endswith(DIFFERENCE)
            assert (one.metric, 100, 50, 0.9) not in KNOWN or KNOWN[one.metric, 100, 50, 0.9].counts[0] == counted
            assert one.share >= 0.87 or one.metric.removesuffix(DIFFERENCE) in WITHHELD
            assert one.tested == SAMPLES and one.rejected <= 0.13 * SAMPLES, one


def test_calibrated_answers_are_seldom_called_uncalibrated_and_others_often():
    rejected, within = calibration_null(300, 50, SAMPLES)
    assert rejected <= 0.13 and within >= 0.92
    assert calibration_null(300, 50, 30, off=0.2)[0] > 0.8
