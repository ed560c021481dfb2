"""Sum of eigenvalues of the graph Laplacian: Zhen Lin, Shubhendu Trivedi, Jimeng Sun, "Generating with Confidence", 2023 (UQ-NLG)."""

from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness, spectrum

CITES = ["lin2024generating"]
NEEDS = ["draw_texts"]


def eigenvalue(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
) -> Floats:
    """Return the continuous number of groups of alike draws per question, 1 to N draws.

    U = sum_k max(0, 1 - lambda_k) over the eigenvalues of the normalised graph Laplacian of the draws' likeness (LM-Polygraph calls it
    EigValLaplacian). From about 1, all alike, to N, all unlike; higher = more uncertain. Undefined with fewer than two draws.

    Example: W = (1, .9, .2), (.8, 1, .1), (.3, .2, 1) gives 1.690476.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
    """
    return np.array([groups(w) for w in likeness(context, draw_texts, similarity, nli)], dtype=np.float64)


def groups(likeness: Floats) -> float:
    return float(np.maximum(0.0, 1.0 - spectrum(likeness)[0]).sum()) if len(likeness) > 1 else float("nan")
