import numpy as np
import pytest

from qualm.runners.contracts.abstentions import Answers
from qualm.runners.plugins.abstentions.thresholding import PAPER, thresholding

P, LAVE, GT = np.array([0.95, 0.92, 0.60, 0.30, 0.85]), np.array([1, 0, 0.5, 0, 1]), np.array([0.0, 1, 0, 1, 0])


def answers(p=P, lave=LAVE, gt=GT, pred=None, **more):
    return Answers(p, lave, np.zeros(len(p)) if pred is None else pred, gt, np.arange(len(p)), **more)


def test_the_papers_grid():
    assert len(PAPER) == 18
    assert [f"{t:g}" for t in PAPER] == [*(f"0.{i}" for i in range(1, 10)), *(f"0.{i}" for i in range(91, 100))]


@pytest.mark.parametrize(
    ("thresholds", "accuracy"),
    [
        ([0.1, 0.2, 0.3], 0.5),
        ([0.4, 0.5, 0.6], 0.7),
        ([0.7, 0.8], 0.6),
        ([0.9, 0.91, 0.92], 0.4),
        ([0.93, 0.94, 0.95], 0.6),
        ([0.96, 0.99], 0.4),
    ],
)
def test_worked_example(thresholds, accuracy):
    for t in thresholds:
        assert answers().abstain_below(t).correct.mean() == pytest.approx(accuracy)


def test_the_best_and_of_equals_the_smallest():
    rule = thresholding(answers())
    assert rule.threshold == 0.4
    assert rule.attained and "0.700 on the 5 answers" in rule.statement
    assert thresholding(answers(lave=np.ones(5), gt=np.zeros(5))).threshold == 0.1


@pytest.mark.parametrize("turned", ["kept", "complement"])
def test_weighted_by_confidence_against_a_loop(turned):
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, gt, pred = rng.random(30), rng.integers(0, 2, 30) * 1.0, rng.integers(0, 4, 30) // 3 * 1.0
        lave = np.where(pred + gt > 0, pred == gt, rng.integers(0, 3, 30) / 2)
        best, chosen = -2.0, None
        for t in [*(i / 100 for i in range(10, 100, 10)), *(i / 100 for i in range(91, 100))]:
            total = 0.0
            for k in range(30):
                score, sure = lave[k], p[k]
                if p[k] < t and not pred[k]:
                    score, sure = gt[k], (1 - p[k] if turned == "complement" else p[k])
                total += score * sure if score > 0 else -sure
            if total / 30 > best + 1e-12:
                best, chosen = total / 30, t
        fit = answers(p, lave, gt, pred, turned_confidence=turned)
        assert thresholding(fit, criterion="confidence_weighted_accuracy").threshold == chosen


def test_every_confidence_that_occurs():
    fit = answers(p=np.array([0.991, 0.995, 0.999]), lave=np.array([0.0, 1, 1]), gt=np.array([1.0, 0, 0]))
    assert thresholding(fit).threshold == 0.1
    assert thresholding(fit, grid="exact").threshold == 0.995
    assert thresholding(answers(lave=np.ones(5), gt=np.zeros(5)), grid="exact").threshold == 0


def test_refusals_stay_what_they_are():
    fit = answers(pred=np.array([0.0, 0, 0, 1, 0]), lave=np.array([1, 0, 0.5, 1, 1]), turned_confidence="complement")
    after = fit.abstain_below(0.7)
    assert after.confidence.tolist() == pytest.approx([0.95, 0.92, 0.4, 0.3, 0.85])
    assert after.pred_is_idk.tolist() == [0, 0, 1, 1, 0]
    assert after.correct.tolist() == [1, 0, 0, 1, 1]


def test_nothing_to_choose_on():
    rule = thresholding(answers().rows(np.zeros(5, dtype=bool)))
    assert np.isnan(rule.threshold) and not rule.attained
