"""Visual semantic entropy: the distance between the meanings of the answers to perturbed images (Huy et al., ECCV 2026)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Le
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness

CITES = ["huy2026visual"]
ALSO_KNOWN_AS = ["VSE"]
NEEDS = {"perturbed_texts": "draw_texts_under_{under}"}


def visual_semantic_entropy(
    context: EstimatorContext,
    perturbed_texts: Texts,
    *,
    under: str = "all",
    similarity: Literal["entailment", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    method: Literal["average", "complete", "single"] = "average",
    cut: Annotated[float, Gt(0), Le(1)] = 0.5,
) -> Floats:
    """Return the mean distance between meanings of each question's answers to altered images.

    U = Σ_{k≠l} w_k w_l d(p_k, p_l) (equation 8). The answers drawn under all perturbed variants are clustered by their distances d; w_k is
    cluster k's share of them, p_k its prototype: the answer with the least sum of distances to the others in it (equation 7; the first of
    equals). From 0 (one meaning) to below 1, no unit, higher = more uncertain. The value belongs to the clean answer, which is not
    clustered; undefined where a sample has no perturbed variant.

    The paper names an NLI model as d and hierarchical clustering, but gives neither d's formula nor linkage nor threshold, and its
    repository has no code. Here d = 1 − the mean probability of entailment in both directions, 0 for equal answers; `method` and `cut` are
    parameters. The paper samples one answer to each of ten images with new Gaussian noise (σ = 20); here every draw under each of the
    spec's `perturbations` counts. The question must stay as it is: name perturbations of the image in `under` where a spec has others.

    Example: draws "red", "red" under one variant, "red", "blue" under another have w = .75, .25 and d = 1: .375.

    Args:
        under: `all` perturbed variants of the dataset, those of one perturbation (`blur`), or one variant (`blur@radius=2`).
        similarity: of two answers: the probability of entailment, or shared words over all words (Jaccard).
        nli: NLI model for entailment; not used with jaccard.
        method: distance of two clusters: the average, greatest or least over their answers.
        cut: clusters nearer than this are joined.
    """
    values = []
    for similarities, texts in zip(likeness(context, perturbed_texts, similarity, nli), perturbed_texts, strict=True):
        distances = 1.0 - (similarities + similarities.T) / 2
        np.fill_diagonal(distances, 0.0)
        values.append(_dispersion(distances, _clusters(distances, method, cut)) if texts else np.nan)
    return np.array(values, dtype=np.float64)


def _clusters(distances: Floats, method: str, cut: float) -> list[list[int]]:
    """Return lists of answer indices: clusters of (N, N) distances, joined below `cut`."""
    if len(distances) < 2:
        return [[0]]
    # `fcluster` joins at the threshold too; an answer that entails another one way only is at .5 from it.
    labels = fcluster(linkage(squareform(distances, checks=False), method), np.nextafter(cut, 0.0), "distance")
    return [list(np.flatnonzero(labels == label)) for label in np.unique(labels)]


def _dispersion(distances: Floats, clusters: list[list[int]]) -> float:
    prototypes = [own[int(distances[np.ix_(own, own)].sum(axis=1).argmin())] for own in clusters]
    weights = np.array([len(own) for own in clusters]) / len(distances)
    return float(weights @ distances[np.ix_(prototypes, prototypes)] @ weights)
