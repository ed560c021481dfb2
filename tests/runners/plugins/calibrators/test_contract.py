"""What every calibrator keeps, whoever wrote it."""

import sys

import numpy as np
import pytest
from scipy.special import expit

from qualm.registry.plugins import registry
from qualm.runners.contracts.grouped_weights import Weights

RNG = np.random.default_rng(0)
N = 90
SCORE = RNG.normal(size=N).round(1)
RIGHT = (RNG.random(N) < expit(1 + SCORE)).astype(float)
AT = np.r_[np.linspace(-4, 4, 25), SCORE[:10]]
GROUP = np.arange(N) // 3
COUNTS = np.vstack([np.ones(30), RNG.multinomial(30, np.ones(30) / 30, size=4)]).astype(float)
for array in (SCORE, RIGHT, AT):
    array.flags.writeable = False  # a calibrator that changes its input fails
STEPS = {"histogram": "the share of right answers in a bin may be below that of a lower bin"}
ONE_PARAMETER = {"temperature": "it changes how sure all answers are, and not how many are right"}


def functions():
    """Every calibrator, and the ends of its interval if it has one, as (score, right, weights, at) -> (B, m)."""
    for name in registry.names("calibrators"):
        function = registry.load("calibrators", name)
        yield pytest.param(name, function, id=name)
        if interval := getattr(sys.modules[function.__module__], "interval", None):
            for end in (0, 1):
                yield pytest.param(name, lambda *args, own=interval, end=end: own(*args)[end], id=f"{name}-{('low', 'high')[end]}")


each = pytest.mark.parametrize(("name", "function"), list(functions()))


@pytest.fixture(params=registry.names("calibrators"))
def calibrator(request):
    return registry.load("calibrators", request.param)


@each
def test_a_resample_is_the_rows_that_it_draws_as_often_as_it_draws_them_in_any_order(name, function):
    found = function(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
    assert found.shape == (5, len(AT)) and ((found >= 0) & (found <= 1)).all()
    for one, counts in zip(found, COUNTS, strict=True):
        rows = RNG.permutation(np.repeat(np.arange(N), counts[GROUP].astype(int)))
        np.testing.assert_allclose(function(SCORE[rows], RIGHT[rows], np.ones((1, len(rows))), AT)[0], one, atol=1e-6)


@each
def test_a_probability_depends_on_its_own_score_alone_and_is_undefined_without_answers(name, function):
    counts = np.vstack([COUNTS, np.zeros(30)])
    found = function(SCORE, RIGHT, Weights(counts, GROUP), AT)
    np.testing.assert_allclose(function(SCORE, RIGHT, Weights(counts, GROUP), AT[7:9]), found[:, 7:9], atol=1e-12)
    assert np.isfinite(found[:-1]).all() and np.isnan(found[-1]).all()


@each
def test_a_half_right_answer_is_right_and_wrong_with_half_the_weight(name, function):
    right = np.where(np.arange(N) % 5 == 0, 0.5, RIGHT)
    twice = np.repeat(np.arange(N), 2)
    parts = np.column_stack([np.ceil(right), np.floor(right)]).ravel()
    expected = function(SCORE[twice], parts, np.full((1, 2 * N), 0.5), AT)
    np.testing.assert_allclose(function(SCORE, right, np.ones((1, N)), AT), expected, atol=1e-6)


@each
def test_a_higher_score_is_never_less_likely_right(name, function):
    found = function(SCORE, RIGHT, Weights(COUNTS, GROUP), np.sort(AT))
    assert (np.diff(found) >= -1e-9).all() or name in STEPS
    assert (found[:, -1] > found[:, 0]).all()


@each
def test_on_average_it_is_the_share_of_right_answers(name, function):
    found = function(SCORE, RIGHT, np.ones((1, N)), SCORE)[0].mean()
    assert found == pytest.approx(RIGHT.mean(), abs=0.05) or name in ONE_PARAMETER


def test_scores_that_are_too_sure_get_their_probabilities(calibrator):
    """Of a model whose log odds are three times as large as they should be."""
    rng = np.random.default_rng(1)
    odds = rng.normal(size=4000).round(1)
    right = (rng.random(4000) < expit(odds)).astype(float)
    at = np.linspace(-2, 2, 21)
    found = calibrator(3 * odds, right, np.ones((1, 4000)), 3 * at)[0]
    assert np.abs(found - expit(at)).mean() < 0.04


def test_of_ends_of_an_interval_the_probability_lies_between():
    with_interval = []
    for name in registry.names("calibrators"):
        function = registry.load("calibrators", name)
        if interval := getattr(sys.modules[function.__module__], "interval", None):
            with_interval.append(name)
            value = function(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
            low, high = interval(SCORE, RIGHT, Weights(COUNTS, GROUP), AT)
            assert (low <= value).all() and (value <= high).all()
    assert with_interval == ["venn_abers"]


@pytest.mark.parametrize("name", [n for n in registry.names("calibrators") if registry.get("calibrators", n).declares.get("OPTIONS")])
def test_probabilities_of_a_questions_options_sum_to_one_and_padding_stays_nan(name):
    logits = np.random.default_rng(2).normal(size=(N, 4))
    logits[::3, 2:] = np.nan
    right = (np.arange(4) == np.arange(N)[:, None] % 2).astype(float)
    found = registry.load("calibrators", name)(logits, right, Weights(COUNTS, GROUP), logits)
    np.testing.assert_allclose(np.nansum(found, axis=2), 1)
    np.testing.assert_array_equal(np.isnan(found), np.broadcast_to(np.isnan(logits), found.shape))


@pytest.mark.parametrize("name", [n for n in registry.names("calibrators") if registry.get("calibrators", n).declares.get("SEVERAL")])
def test_several_scores_may_be_one_and_come_in_any_order(name):
    calibrator, weights = registry.load("calibrators", name), Weights(COUNTS, GROUP)
    found = calibrator(SCORE[:, None], RIGHT, weights, AT[:, None])
    np.testing.assert_allclose(found, calibrator(SCORE, RIGHT, weights, AT), atol=1e-12)
    two, at = np.column_stack([SCORE, np.sin(SCORE)]), np.column_stack([AT, np.cos(AT)])
    np.testing.assert_allclose(calibrator(two, RIGHT, weights, at), calibrator(two[:, ::-1], RIGHT, weights, at[:, ::-1]), atol=1e-6)
