import numpy as np

from qualm.runners.plugins.metrics.mme_score import mme_score


def by_hand(right, pictures, subtasks):
    """Official: per subtask 100 x the share of right questions + 100 x the share of pictures with both right."""
    total = 0.0
    for subtask in set(subtasks):
        rows = [i for i, s in enumerate(subtasks) if s == subtask]
        of = {p: [right[i] for i in rows if pictures[i] == p] for p in {pictures[i] for i in rows}}
        total += 100 * sum(right[i] for i in rows) / len(rows) + 100 * sum(all(r) for r in of.values()) / len(of)
    return total


def test_every_subtask_by_hand():
    rng = np.random.default_rng(2)
    right = rng.integers(0, 2, 80) * 1.0
    pictures, subtasks = np.arange(80) // 2 * 1.0, np.arange(80) // 2 % 4 * 1.0
    drawn = rng.integers(1, 3, 40)
    drawn[3] = 0
    found = mme_score(right, pictures, subtasks, np.stack([np.ones(80), np.repeat(drawn, 2)]))
    chosen = np.repeat(np.arange(40), drawn)
    copies = np.concatenate([[2 * p, 2 * p + 1] for p in chosen])
    again = by_hand(right[copies], np.arange(len(copies)) // 2, subtasks[copies])
    np.testing.assert_allclose(found, [by_hand(right, pictures, subtasks), again])


def test_a_resample_without_a_subtask_is_undefined():
    weights = np.array([[1.0, 1, 0, 0]])
    assert np.isnan(mme_score(np.ones(4), np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 1, 1]), weights))
