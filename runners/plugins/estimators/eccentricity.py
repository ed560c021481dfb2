"""Eccentricity of the sampled answers: Zhen Lin, Shubhendu Trivedi, Jimeng Sun, "Generating with Confidence", 2023 (UQ-NLG)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness, spectrum

CITES = ["lin2024generating"]
NEEDS = ["draw_texts"]


def eccentricity(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    threshold: Annotated[float, Gt(0)] = 0.9,
) -> Floats:
    """Return each question's spread of sampled answers around their centre, from 0 up.

    Each draw is placed by its entries in the eigenvectors of the normalised graph Laplacian whose eigenvalue is below the threshold;
    U = the square root of the summed squared distances from the mean place (as in LM-Polygraph). From 0, all alike, up; higher = more
    uncertain. U jumps where an eigenvalue crosses the threshold. Undefined with fewer than two draws.

    Example: W = (1, .9, .2), (.8, 1, .1), (.3, .2, 1) gives 1.000141.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
        threshold: eigenvectors with an eigenvalue below it place the draws.
    """
    return np.array([spread(w, threshold) for w in likeness(context, draw_texts, similarity, nli)], dtype=np.float64)


def spread(likeness: Floats, threshold: float) -> float:
    if len(likeness) < 2:
        return float("nan")
    values, vectors = spectrum(likeness)
    embedding = vectors[:, values < threshold]
    return float(np.linalg.norm(embedding - embedding.mean(axis=0)))
