"""Degree matrix: Zhen Lin, Shubhendu Trivedi, Jimeng Sun, "Generating with Confidence", 2023 (UQ-NLG), as LM-Polygraph computes it."""

from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness

CITES = ["lin2024generating"]
NEEDS = ["draw_texts"]


def deg_mat(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
) -> Floats:
    """Return each question's mean dissimilarity of its sampled answers, over all N^2 pairs.

    U = trace(N I - D) / N^2 = 1 - sum_ij W_ij / N^2 with W the likeness of N draws and D its row sums, the diagonal (1: a text is like
    itself) included. In [0, 1 - 1/N], higher = more uncertain. Undefined with fewer than two draws.

    Example: W = (1, .9, .2), (.8, 1, .1), (.3, .2, 1) gives .388889.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
    """
    return np.array([degree(w) for w in likeness(context, draw_texts, similarity, nli)], dtype=np.float64)


def degree(likeness: Floats) -> float:
    return float(1.0 - likeness.mean()) if len(likeness) > 1 else float("nan")
