import numpy as np
import pytest
from scipy.stats import binom

from qualm.runners.contracts.abstentions import Answers
from qualm.runners.plugins.abstentions.learn_then_test import GRID, NEAR_ONE, _losses, _p_value, learn_then_test


def draw(rng, n, per_group=1):
    """Answers that are more often right than they are sure; rows of a group share their luck."""
    luck = np.repeat(rng.random(n), per_group)
    p = np.clip(0.7 * rng.random(n * per_group) + 0.3 * luck, 0, 1)
    correct = (rng.random(n * per_group) < np.minimum(1, 1.25 * p)) * 1.0
    pred = (rng.random(n * per_group) < 0.1) * 1.0
    return Answers(p, correct, pred, np.zeros(n * per_group), np.repeat(np.arange(n), per_group))


@pytest.mark.parametrize(("n", "mean", "alpha"), [(50, 0.02, 0.1), (200, 0.05, 0.1), (30, 0.0, 0.2)])
def test_p_values_are_the_smaller_bound(n, mean, alpha):
    entropy = (mean * np.log(mean / alpha) if mean else 0) + (1 - mean) * np.log((1 - mean) / (1 - alpha))
    losses = np.full(n, mean)
    assert _p_value(losses, True, alpha, 0.01) == pytest.approx(min(np.exp(-n * entropy), np.e * binom.cdf(np.ceil(n * mean), n, alpha)))
    assert _p_value(losses + alpha, True, alpha, 0.01) == _p_value(np.empty(0), True, alpha, 0.01) == 1


@pytest.mark.parametrize(
    ("risk", "unit", "found"),
    [("answered", "row", (2, 0.5)), ("all", "row", (4, 0.25)), ("answered", "group", (1, 0.5)), ("all", "group", (2, 0.2))],
)
def test_losses_are_of_answers_at_the_threshold_or_above_that_do_not_decline(risk, unit, found):
    fit = Answers(np.array([0.5, 0.4, 0.9, 0.8]), np.array([0.0, 0, 1, 0]), np.array([0.0, 0, 0, 1]), np.zeros(4), np.array([7, 7, 7, 2]))
    place = np.array([0, 0, 0, 1]) if unit == "group" else np.arange(4)
    losses, _ = _losses(fit, place, 0.5, risk, 0.1)
    assert (len(losses), losses.mean()) == pytest.approx(found)
    nothing, equal = _losses(fit, place, 0.95, risk, 0.1)
    assert equal is (unit == "row" or risk == "answered")
    assert len(nothing) == (0 if risk == "answered" else found[0])
    assert nothing.sum() == pytest.approx(0.1 - 0.1 / 3 if (risk, unit) == ("all", "group") else 0)


@pytest.mark.parametrize("mean", [0.2, 0.25])
def test_a_bet_on_fewer_losses_than_there_are_seldom_wins(mean):
    """Losses on the scale of unequal groups: most near alpha, few far from it."""
    rng = np.random.default_rng(6)
    wins = []
    for _ in range(1000):
        size = np.where(rng.random(100) < 0.3, 8, 1)
        losses = 0.2 + (rng.binomial(size, mean) - 0.2 * size) / 8
        wins.append(_p_value(losses, False, 0.2, 0.05) <= 0.05)
    assert np.mean(wins) <= 0.05


@pytest.mark.parametrize("risk", ["answered", "all"])
def test_against_a_walk_from_every_start(risk):
    fit = draw(np.random.default_rng(3), 400)
    grid = [*NEAR_ONE, *GRID]
    lowest = None
    for start in np.linspace(0, len(grid), 10, endpoint=False).astype(int):
        for t in grid[start:]:
            answered = (fit.confidence >= t) & (fit.pred_is_idk == 0)
            wrong = ((1 - fit.correct) * answered).sum()
            n = answered.sum() if risk == "answered" else len(fit)
            if not n or _p_value(np.full(int(n), wrong / n), True, 0.2, 0.01) > 0.01:
                break
            lowest = t if lowest is None else min(lowest, t)
    rule = learn_then_test(fit, alpha=0.2, delta=0.1, risk=risk)
    assert lowest is not None and rule.threshold == lowest and rule.attained
    what = "error among answered questions" if risk == "answered" else "share of questions answered wrongly"
    assert rule.statement.startswith(f"With probability 0.9 the {what} is at most 0.2; ")


@pytest.mark.slow
@pytest.mark.parametrize(("risk", "per_group"), [("answered", 1), ("all", 2)])
def test_the_promise_fails_no_more_often_than_delta(risk, per_group):
    rng = np.random.default_rng(1)
    fresh = draw(rng, 20_000, per_group)
    failed = []
    for _ in range(150):
        t = learn_then_test(draw(rng, 250, per_group), alpha=0.2, delta=0.2, risk=risk).threshold
        answered = (fresh.confidence >= t) & (fresh.pred_is_idk == 0)
        wrong = ((1 - fresh.correct) * answered).sum()
        failed.append(wrong > 0.2 * (answered.sum() if risk == "answered" else len(fresh)))
    assert np.mean(failed) <= 0.2


def test_too_few_answers_decline_everything_and_say_so():
    rule = learn_then_test(draw(np.random.default_rng(0), 8), alpha=0.05)
    assert not rule.attained and 1 < rule.threshold < 1 + 1e-12 and "do not show that any threshold" in rule.statement
    none = np.empty(0)
    assert not learn_then_test(Answers(none, none, none, none, np.empty(0, dtype=np.int64))).attained


def test_groups_count_once():
    fit = draw(np.random.default_rng(0), 40)
    tenfold = fit.rows(np.ones(40, dtype=bool))
    tenfold = Answers(*(np.repeat(getattr(tenfold, c), 10) for c in ("confidence", "correct", "pred_is_idk", "gt_is_idk", "group")))
    assert learn_then_test(tenfold, alpha=0.3).threshold == learn_then_test(fit, alpha=0.3).threshold


@pytest.mark.slow
def test_the_promise_is_of_questions_where_groups_are_uneven():
    """Large groups are wrong more often."""
    rng = np.random.default_rng(4)

    def uneven(groups):
        sizes = np.where(rng.random(groups) < 0.3, 8, 1)
        large = np.repeat(sizes > 1, sizes)
        confidence = rng.random(sizes.sum())
        correct = (rng.random(sizes.sum()) < np.where(large, 0.6, 0.97) + 0.4 * confidence * large).astype(float)
        none = np.zeros(len(correct))
        return Answers(confidence, correct, none, none, np.repeat(np.arange(groups), sizes))

    fresh, failed, attained = uneven(20_000), [], []
    for _ in range(120):
        rule = learn_then_test(uneven(800), alpha=0.2, delta=0.1)
        answered = fresh.confidence >= rule.threshold
        failed.append(((1 - fresh.correct) * answered).sum() > 0.2 * answered.sum())
        attained.append(rule.attained)
    assert np.mean(failed) <= 0.1 and np.mean(attained) > 0.5
