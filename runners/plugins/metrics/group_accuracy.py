"""Share of groups of questions that are answered right throughout: figures, question pairs, images, rotations of one question."""

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean, whole_groups

META = MetricMeta(higher_is_better=True, interval="proportion", increases_with="right")
NEEDS = {"right": "{of}", "groups": "group_of_{by}"}


def group_accuracy(right: Floats, groups: Floats, weights: Weights, *, by: str = "group", of: str = "correct") -> Floats:
    """Share of groups in which every question is answered right.

    sum over groups of 1[all right] / number of groups, in [0, 1], higher is better; half right is not right. MMBench's circular
    accuracy, HallusionBench's fAcc and qAcc and MME's acc+ are this by other fields. Over the samples that have the field; a group
    of which one question is unscored is unscored as a whole. `n` counts questions. Undefined without rows.

    Args:
        by: The field or meta key whose equal values make a group.
        of: What is to be right: `correct`, or `rated_by_JUDGE` for a judge that is not the first.
    """
    whole, size = whole_groups(right, groups)
    return mean(whole, 1 / size, weights)
