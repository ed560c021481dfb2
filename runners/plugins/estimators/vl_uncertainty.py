"""VL-Uncertainty (Zhang et al., 2024)."""

from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._meanings import clusters
from qualm.runners.plugins.estimators.semantic_entropy import entropy

CITES = ["zhang2024vluncertainty"]
NEEDS = {"perturbed_texts": "draw_texts_under_{under}"}


def vl_uncertainty(
    context: EstimatorContext,
    perturbed_texts: Texts,
    *,
    under: str = "all",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    same: Literal["entailment", "no_contradiction"] = "entailment",
) -> Floats:
    """Return each question's entropy, in nats, over meanings of answers to altered prompts.

    U = -sum_c q_c ln q_c, q_c the share of cluster c among the answers drawn under all perturbed variants together, in nats (the paper's
    code: bits), from 0 to ln of their number, higher = more uncertain. Clusters as in semantic_entropy. The value belongs to the clean
    answer, which is not among the answers clustered; undefined where a sample has no perturbed variant.

    The paper blurs the image and rephrases the question, five times and more strongly each time, and samples one answer to each pair.
    Here the prompts are the spec's own `perturbations`, of an image or a question or both as they are, and every draw under each counts.
    It is for perturbations that keep the answer: name them in `under` where a spec has others.

    Example: draws "red", "red" under one variant, "red", "blue" under another give .562335.

    Args:
        under: `all` perturbed variants of the dataset, those of one perturbation (`blur`), or one variant (`blur@radius=2`).
        nli: NLI model for entailment.
        same: one meaning = each follows from the other; or, looser, neither contradicts the other.
    """
    labels = clusters(context.nli(nli, "contradiction" if same == "no_contradiction" else "entailment"), perturbed_texts, None, same)
    return np.array([entropy(own, None, "frequency") for own in labels], dtype=np.float64)
