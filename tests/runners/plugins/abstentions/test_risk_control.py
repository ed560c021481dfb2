import numpy as np
import pytest

from qualm.runners.contracts.abstentions import Answers
from qualm.runners.plugins.abstentions.risk_control import risk_control


def draw(rng, n, per_group=1):
    """Answers that are right about as often as they are sure, a few of them refusals; rows of a group share their luck."""
    luck = np.repeat(rng.random(n), per_group)
    p = np.clip(0.7 * rng.random(n * per_group) + 0.3 * luck, 0, 1)
    gt = (rng.random(n * per_group) < 0.3) * 1.0
    pred = (rng.random(n * per_group) < 0.1) * 1.0
    right = (rng.random(n * per_group) < p) * np.where(rng.random(n * per_group) < 0.2, 0.5, 1.0)
    correct = np.where(pred > 0, gt, np.where(gt > 0, 0, right))
    return Answers(p, correct, pred, gt, np.repeat(np.arange(n), per_group))


def risk(answers, threshold, unit):
    """Mean over units of (1 - correct) where an answer is given."""
    losses = []
    for unit_rows in [answers.group == g for g in np.unique(answers.group)] if unit == "group" else np.eye(len(answers), dtype=bool):
        rows = np.flatnonzero(unit_rows)
        answered = [k for k in rows if answers.confidence[k] >= threshold and not answers.pred_is_idk[k]]
        losses.append(sum(1 - answers.correct[k] for k in answered) / len(rows))
    return float(np.mean(losses)), len(losses)


@pytest.mark.parametrize("unit", ["group", "row"])
def test_against_a_search_through_every_threshold(unit):
    rng = np.random.default_rng(0)
    for alpha in (0.08, 0.2, 0.4):
        fit = draw(rng, 25, per_group=2)
        rule = risk_control(fit, alpha=alpha, unit=unit)
        offered = [0.0, *sorted(np.nextafter(fit.confidence, 2.0))]
        bounds = []
        for t in offered:
            mean, n = risk(fit, t, unit)
            bounds.append(n / (n + 1) * mean + 1 / (n + 1))
        assert rule.threshold == next(t for t, b in zip(offered, bounds, strict=True) if b <= alpha + 1e-12)
        assert rule.attained


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "per_group"), [("row", 1), ("group", 3)])
def test_the_guarantee_holds_and_is_nearly_used_up(unit, per_group):
    """The promise is about the mean over many draws of fitting set and fresh question."""
    rng = np.random.default_rng(1)
    alpha, n, found = 0.15, 40, []
    fresh = draw(rng, 20_000, per_group)
    for _ in range(1500):
        threshold = risk_control(draw(rng, n, per_group), alpha=alpha, unit=unit).threshold
        found.append(((1 - fresh.correct) * (fresh.pred_is_idk == 0) * (fresh.confidence >= threshold)).mean())
    error = np.std(found) / np.sqrt(len(found)) + 0.002
    assert np.mean(found) <= alpha + 2 * error
    assert np.mean(found) >= alpha - 2 / (n + 1) - 2 * error, "loses no more than 2B/(n+1), as the paper shows"


def test_too_few_units_abstain_on_everything_and_say_so():
    fit = draw(np.random.default_rng(0), 8)
    rule = risk_control(fit, alpha=0.1)
    assert not rule.attained
    assert not (fit.confidence >= rule.threshold).any() and rule.threshold > 1
    assert "8 questions cannot promise" in rule.statement and "at least 9 are needed" in rule.statement
    assert risk_control(draw(np.random.default_rng(0), 9), alpha=0.1).attained
    assert not risk_control(fit.rows(np.zeros(8, dtype=bool)), alpha=0.1).attained


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_the_share_of_questions_is_held_where_groups_are_uneven(alpha):
    """Large groups are wrong more often: the mean over groups, each counting once, would be held and the share of questions not."""
    rng = np.random.default_rng(4)

    def uneven(groups):
        sizes = np.where(rng.random(groups) < 0.2, 12, 1)
        hard = np.repeat(sizes > 1, sizes)
        confidence = rng.random(sizes.sum())
        correct = (rng.random(sizes.sum()) < np.where(hard, 0.35, 0.9) + 0.3 * confidence * hard).astype(float)
        none = np.zeros(len(correct))
        return Answers(confidence, correct, none, none, np.repeat(np.arange(groups), sizes))

    fresh, wrong = uneven(20_000), []
    for _ in range(300):
        threshold = risk_control(uneven(150), alpha=alpha).threshold
        wrong.append(((1 - fresh.correct) * (fresh.confidence >= threshold)).mean())
    assert 0.4 * alpha < np.mean(wrong) <= alpha + 2 * np.std(wrong) / np.sqrt(len(wrong)) + 0.002


def test_a_model_that_never_errs_answers_everything():
    fit = draw(np.random.default_rng(0), 30)
    perfect = Answers(fit.confidence, np.ones(30), np.zeros(30), np.zeros(30), fit.group)
    assert risk_control(perfect, alpha=0.1).threshold == 0


def test_groups_count_once():
    """Thirty questions on three pictures are three draws, not thirty."""
    fit = draw(np.random.default_rng(0), 3, per_group=10)
    assert not risk_control(fit, alpha=0.1).attained
    assert risk_control(fit, alpha=0.1, unit="row").attained
