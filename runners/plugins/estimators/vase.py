"""Vision-amplified semantic entropy (VASE; Liao et al., MICCAI 2025), which HEDGE (Gautam et al., 2025) computes as well."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from scipy.special import entr, softmax

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import Draws, EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._meanings import Ints, clusters

CITES = ["liao2025vision", "gautam2025hedge"]
NEEDS = {
    "text": "text",
    "draw_texts": "draw_texts",
    "draw_logprobs": "draw_logprobs",
    "distorted_texts": "draw_texts_under_{under}",
    "distorted_logprobs": "draw_logprobs_under_{under}",
}


def vase(
    context: EstimatorContext,
    text: Sequence[str],
    draw_texts: Texts,
    draw_logprobs: Draws,
    distorted_texts: Texts,
    distorted_logprobs: Draws,
    *,
    under: str = "all",
    alpha: Annotated[float, Ge(0)] = 1.0,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    same: Literal["entailment", "no_contradiction"] = "entailment",
) -> Floats:
    """Return semantic entropy per question, discounting answers given to distorted images too.

    The greedy answer, the draws and those from distorted images are clustered together (as in semantic_entropy). p_c and p'_c are the
    shares of cluster c in the probabilities of the clean and the distorted draws, exp of the mean log-probability of a token, end of
    sequence included; U is the entropy, in nats, of softmax(p + alpha (p - p')) over all clusters, from 0 to ln of their number,
    higher = more uncertain. The value belongs to the clean answer; undefined where a sample has no distorted variant or a draw has no
    tokens.

    The paper distorts the image anew for every draw, by crops, rotation, colours and noise, and its code joins answers that do not
    contradict each other unless both are neutral. Here the distorted images are the spec's own perturbations, all their draws together.

    Example: equally probable draws "red", "red" of the clean image, "red", "blue" of a distorted one, give .365334.

    Args:
        under: `all` perturbed variants of the dataset, those of one perturbation (`blur`), or one variant (`blur@radius=2`).
        alpha: how much more the image counts.
        nli: NLI model for entailment.
        same: one meaning = each follows from the other; or, looser, neither contradicts the other.
    """
    whole = [[answer, *clean, *other] for answer, clean, other in zip(text, draw_texts, distorted_texts, strict=True)]
    labels = clusters(context.nli(nli, "contradiction" if same == "no_contradiction" else "entailment"), whole, None, same)
    values = []
    for own, clean, distorted in zip(labels, draw_logprobs, distorted_logprobs, strict=True):
        number, end = int(own.max()) + 1, 1 + len(clean)
        p, other = _cluster_shares(own[1:end], clean, number), _cluster_shares(own[end:], distorted, number)
        values.append(float(entr(softmax(p + alpha * (p - other))).sum()))
    return np.array(values, dtype=np.float64)


def _cluster_shares(labels: Ints, logprobs: list[Floats], n_clusters: int) -> Floats:
    """Return (n_clusters,) shares by exp of mean token log-probability; NaN if one has none."""
    if not logprobs or not all(map(len, logprobs)):
        return np.full(n_clusters, np.nan)
    weights = np.bincount(labels, np.exp([row.mean() for row in logprobs]), n_clusters)
    shares: Floats = weights / weights.sum()
    return shares
