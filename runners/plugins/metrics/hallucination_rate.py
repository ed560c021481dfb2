"""Hallucination rate: right answers that a perturbation turns wrong. VLM-UQBench: Wang, Chen, Ahmad, Batmanghelich, Li."""

from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from qualm.registry.plugins.protocols import MetricMeta
from qualm.runners.contracts.metrics import Floats, Weights, mean

CITES = ["wang_vlmuqbench"]
META = MetricMeta(
    higher_is_better=False,
    interval="proportion",
    over={"only_clean_correct": "clean_correct"},
    test="exchange",
    row_by_row=True,
    companions=["unchanged_input_rate"],
)


def hallucination_rate(
    correct: Floats,
    clean_correct: Floats,
    weights: Weights,
    *,
    only_clean_correct: bool = False,
    right_from: Annotated[float, Gt(0), Le(1)] = 0.5,
) -> Floats:
    """Share of samples that are answered right when clean and wrong when perturbed.

    mean 1[clean right and perturbed wrong], in [0, 1], lower is better. By the paper's definition it is over all samples, so
    a model that is rarely right cannot hallucinate often. An answer that declines a question it could answer is wrong.
    Not of the clean variant. Undefined without rows, as under perturbations that ask another question (`KEEPS_ANSWER = False`).

    Args:
        only_clean_correct: Take only samples that are right when clean; n then counts those.
        right_from: The least correctness that counts as right.
    """
    was_right = (clean_correct >= right_from).astype(np.float64)
    hallucinated = was_right * (correct < right_from).astype(np.float64)
    return mean(hallucinated, was_right if only_clean_correct else np.ones_like(correct), weights)
