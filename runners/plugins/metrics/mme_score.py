"""MME's score. Fu, Chen, Shen et al., 2023."""

import numpy as np

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, ratio, whole_groups

CITES = ["fu2023mme"]
META = MetricMeta(higher_is_better=True, interval="t", increases_with="right")
NEEDS = {"right": "rated_by_{judge}", "pictures": "group_of_{picture}", "subtasks": "code_of_{subtask}"}


def mme_score(
    right: Floats,
    pictures: Floats,
    subtasks: Floats,
    weights: Weights,
    *,
    judge: str = "",
    picture: str = "group",
    subtask: str = "subtask",
) -> Floats:
    """Sum over subtasks of accuracy plus accuracy+, in points: at most 200 per subtask.

    sum over subtasks of 100 (acc + acc+), acc the share of right answers and acc+ that of images with both questions right. In
    [0, 200 x subtasks], higher is better: 200 of one subtask, 2000 of perception and 800 of cognition, which are the slices
    `category=perception` and `category=cognition`. An image of which one question is unscored is unscored. Undefined in a
    resample that lacks a subtask.

    Args:
        judge: Label of the judge that reads the answers; by default the one whose ratings are scored.
        picture: Field or meta key whose equal values are questions of one image.
        subtask: Field or meta key that names the subtask.
    """
    if not len(right):
        return np.full(weights.shape[0], np.nan)
    whole, size = whole_groups(right, pictures)
    of = (subtasks[:, None] == np.unique(subtasks)).astype(np.float64)
    parts = [right[:, None] * of, of, (whole / size)[:, None] * of, of / size[:, None]]
    sums = (weights @ np.column_stack(parts)).reshape(weights.shape[0], len(parts), -1)
    accuracy, both = ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 2], sums[:, 3])
    score: Floats = 100 * (accuracy + both).sum(axis=1)
    return score


def types(
    right: Floats, pictures: Floats, subtasks: Floats, *, judge: str = "", picture: str = "group", subtask: str = "subtask"
) -> Floats:
    """Return the (n,) subtask codes; an interval needs several groups of every subtask."""
    return subtasks


def bounds(subtasks: Floats) -> tuple[float, float]:
    """Return the lowest and highest possible value: 0, and 200 points per subtask."""
    return 0.0, 200.0 * len(np.unique(subtasks))
