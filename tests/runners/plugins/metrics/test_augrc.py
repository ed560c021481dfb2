import numpy as np
import pytest
from sklearn.metrics import auc, roc_auc_score

from qualm.runners.plugins.metrics.augrc import augrc
from qualm.runners.scoring.bootstrap import Bootstrap


def by_hand(u, correct):
    """The area under the points of each distinct uncertainty, as the paper's code joins them."""
    n, levels = len(u), np.unique(u)
    covered = [0.0, *((u <= t).mean() for t in levels)]
    risk = [0.0, *((1 - correct)[u <= t].sum() / n for t in levels)]
    return auc(covered, risk)


def test_against_trapezoids_in_every_resample():
    rng = np.random.default_rng(0)
    u, correct = rng.integers(0, 12, 40) * 1.0, rng.integers(0, 3, 40) / 2
    (weights,) = Bootstrap(rng.integers(0, 15, 40), 10, 1).blocks()
    for found, row in zip(augrc(u, correct, weights), np.asarray(weights).astype(int), strict=True):
        drawn = np.repeat(np.arange(40), row)
        assert found == pytest.approx(by_hand(u[drawn], correct[drawn]))
    assert augrc(-u, correct, np.ones((1, 40)), by="confidence")[0] == pytest.approx(by_hand(u, correct))


def test_the_papers_relation_to_auroc_and_accuracy():
    rng = np.random.default_rng(1)
    u, correct = rng.integers(0, 30, 200) * 1.0, rng.integers(0, 2, 200) * 1.0
    accuracy = correct.mean()
    expected = (1 - roc_auc_score(1 - correct, u)) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    assert augrc(u, correct, np.ones((1, 200)))[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("correct", "area", "torch_uncertainty"),
    [
        ([1, 0, 1, 0], 3 / 16, 1 / 4),  # points 0, 0, 1/4, 1/4, 1/2 at 0, 1/4, 1/2, 3/4, 1: trapezoids (0 + 1/8 + 1/4 + 3/8) / 4
        ([0, 1, 1, 1], 7 / 32, 1 / 4),  # points 0, 1/4, 1/4, 1/4, 1/4: (1/8 + 3/4) / 4; from 1/4 on 3/16, over 3/4
    ],
)
def test_the_area_begins_at_no_answers_and_not_at_the_first(correct, area, torch_uncertainty):
    assert augrc(np.arange(4.0), np.array(correct) * 1.0, np.ones((1, 4)))[0] == pytest.approx(area)
    assert (area - (1 - correct[0]) / (2 * 4**2)) / (1 - 1 / 4) == pytest.approx(torch_uncertainty)
