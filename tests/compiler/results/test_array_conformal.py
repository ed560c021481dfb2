"""Split conformal prediction on arrays."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import qualm
from qualm.compiler.results.array_columns import ArgumentError


def world(n: int, seed: int, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(k), size=n)
    return probabilities, np.array([rng.choice(k, p=row) for row in probabilities])


def test_threshold_and_sets_by_hand() -> None:
    probabilities, right = world(99, 1)
    calibrated = qualm.conformal.calibrate(probabilities, right, alpha=0.2)
    own = np.sort(1 - probabilities[np.arange(99), right])
    assert (calibrated.threshold, calibrated.n_calibration) == (own[math.ceil(100 * 0.8) - 1], 99)
    test, _ = world(50, 2)
    expected = 1 - test <= calibrated.threshold + 1e-12
    empty = ~expected.any(axis=1)
    expected[empty, test[empty].argmax(axis=1)] = True
    np.testing.assert_array_equal(calibrated.sets(test), expected)


@pytest.mark.slow
@pytest.mark.parametrize("score", ["lac", "aps", "margin", {"raps": {"penalty": 0.1, "randomised": False}}])
def test_coverage_is_as_promised_over_draws(score) -> None:
    covered = []
    for seed in range(40):
        probabilities, right = world(400, seed)
        sets = qualm.conformal.calibrate(probabilities[:200], right[:200], score=score).sets(probabilities[200:])
        covered.append(sets[np.arange(200), right[200:]].mean())
    assert np.mean(covered) > 0.9 - 3 * np.std(covered) / math.sqrt(40)


def test_too_few_questions_let_every_option_in_and_missing_options_stay_out() -> None:
    calibrated = qualm.conformal.calibrate([[0.6, 0.4], [0.2, 0.3, 0.5]], [0, 2], alpha=0.1)
    assert math.isinf(calibrated.threshold)
    assert calibrated.sets([[0.6, 0.4], [0.2, 0.3, 0.5]]).tolist() == [[True, True, False], [True, True, True]]


def test_the_threshold_of_groups_by_hand() -> None:
    """Twelve groups of one to four questions: a question of a group of four counts a quarter."""
    groups = [f"image {g}" for g in range(12) for _ in range(1 + g % 4)]
    probabilities, right = world(len(groups), 1)
    calibrated = qualm.conformal.calibrate(probabilities, right, groups=groups, alpha=0.2)
    own = 1 - probabilities[np.arange(len(groups)), right]
    rows = sorted((score, 1 / groups.count(name)) for score, name in zip(own, groups, strict=True))
    reached = [score for place, (score, _) in enumerate(rows) if sum(share for _, share in rows[: place + 1]) / 13 >= 0.8 - 1e-12]
    assert (calibrated.threshold, calibrated.n_calibration, calibrated.n_groups) == (reached[0], 30, 12)
    assert math.isinf(qualm.conformal.calibrate(probabilities, right, groups=[g[-1] for g in groups], alpha=0.05).threshold), "10 groups"


def test_questions_that_are_groups_by_themselves_are_calibrated_as_ever() -> None:
    probabilities, right = world(99, 1)
    plain = qualm.conformal.calibrate(probabilities, right)
    assert qualm.conformal.calibrate(probabilities, right, groups=np.arange(99)) == plain
    assert qualm.conformal.calibrate(probabilities, right, groups=[None] * 99) == plain


def test_randomised_scores_need_their_random_numbers() -> None:
    probabilities, right = world(20, 5)
    with pytest.raises(ArgumentError, match="aps_randomised is randomised"):
        qualm.conformal.calibrate(probabilities, right, score="aps_randomised")
    uniform = np.random.default_rng(0).random(20)
    one = qualm.conformal.calibrate(probabilities, right, score="aps_randomised", uniform=uniform)
    assert one.sets(probabilities, uniform).shape == (20, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 1.0}, "alpha: expected a number between 0 and 1"),
        ({"right_options": [0, 3]}, "right_options: expected the index of an option, 0 to 1"),
        ({"alpha": 0.0}, "alpha: expected a number between 0 and 1, got 0"),
        ({"right_options": [0, 2]}, "right_options: expected the index of an option, 0 to 1"),
        ({"right_options": [-1, 0]}, "right_options: expected the index of an option, 0 to 1"),
        ({"right_options": [0.5, 0]}, "right_options: expected the index of an option, 0 to 1"),
        ({"right_options": [None, 0]}, "right_options: expected the index of an option, 0 to 1"),
        ({"probabilities": [[1.1, -0.1], [0.5, 0.5]]}, "numbers from 0 that sum to 1"),
        ({"probabilities": [[0.6, 0.402], [0.5, 0.5]]}, "sum to 1"),
        ({"empty_set": "full"}, "empty_set: expected argmax or empty, got 'full'"),
        ({"right_options": [0]}, "as many rows"),
        ({"probabilities": [[0.9, 0.9], [0.5, 0.5]]}, "sum to 1"),
        ({"probabilities": [[0.6, 0.4], None]}, "sum to 1"),
        ({"probabilities": pa.array([[0.6, 0.4], None])}, "sum to 1"),
        ({"probabilities": np.array([["a", "b"], ["c", "d"]])}, "probabilities: expected a number for each row"),
        ({"probabilities": [0.5, 0.5]}, "a row of numbers for each question"),
        ({"groups": ["a", "b"], "quantile": "numpy_higher"}, "groups: numpy_higher counts each question as independent"),
        ({"groups": ["a"]}, "as many rows"),
        ({"quantile": "higher"}, "quantile: expected standard or numpy_higher"),
        ({"score": "lacs"}, "no conformal plugin named 'lacs'"),
        ({"probabilities": [[1.0], [0.5, 0.5]], "right_options": [1, 0]}, "of 1 questions the right option has no probability"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        qualm.conformal.calibrate(**{"probabilities": [[0.6, 0.4], [0.5, 0.5]], "right_options": [0, 1]} | arguments)


def test_scores_and_sets_take_rows_of_different_lengths_and_name_a_row_that_is_none() -> None:
    calibrated = qualm.conformal.calibrate([[0.6, 0.4], [0.5, 0.5]], [0, 1])
    with pytest.raises(ArgumentError, match="sum to 1"):
        calibrated.sets([[0.6, 0.4], None])
    found = qualm.conformal.lac([[0.6, 0.4], [0.2, 0.3, 0.5], None])
    np.testing.assert_allclose(found, [[0.4, 0.6, np.nan], [0.8, 0.7, 0.5], [np.nan] * 3])
    with pytest.raises(ArgumentError, match="expected a row of numbers for each question"):
        qualm.conformal.lac([0.6, 0.4])
    with pytest.raises(ArgumentError, match="as many rows"):
        qualm.conformal.aps_randomised([[0.6, 0.4]], [0.1, 0.2])


def test_what_just_is_right_is_taken() -> None:
    """A probability of 0, a last option, sums that are off by rounding, and tables in either form."""
    rows = [[1.0, 0.0], [0.4995, 0.4998]]
    found = [qualm.conformal.calibrate(p, [0, 1], alpha=0.5, quantile="numpy_higher") for p in (rows, np.array(rows))]
    assert found[0] == found[1] and found[0].threshold == pytest.approx(1 - 0.4998)
    with pytest.raises(ArgumentError, match="of 1 questions the right option has no probability"):
        qualm.conformal.calibrate(np.array([[1.0, np.nan], [0.5, 0.5]]), [1, 0])
    assert found[0].sets([[0.3, 0.3, 0.4]]).tolist() == [[False, False, True]], "an empty set has the best option"
    empty = qualm.conformal.calibrate(rows, [0, 1], alpha=0.5, quantile="numpy_higher", empty_set="empty")
    assert empty.sets([[0.3, 0.3, 0.4]]).tolist() == [[False, False, False]]
