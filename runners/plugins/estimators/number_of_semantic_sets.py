"""Number of semantic sets: Zhen Lin, Shubhendu Trivedi, Jimeng Sun, "Generating with Confidence", 2023 (UQ-NLG)."""

from typing import Annotated, Literal

import numpy as np
from scipy.sparse.csgraph import connected_components

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.inference.nli import CONTRADICTION, ENTAILMENT
from qualm.runners.plugins.estimators._likeness import infer_all_pairs
from qualm.runners.plugins.estimators._meanings import clusters

CITES = ["lin2024generating"]
NEEDS = ["draw_texts"]


def number_of_semantic_sets(
    context: EstimatorContext,
    draw_texts: Texts,
    *,
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
    sets: Literal["clusters", "components"] = "clusters",
) -> Floats:
    """Return each question's number of distinct meanings among its sampled answers.

    U = number of sets, 1 to N, higher = more uncertain. Undefined with fewer than two draws. Empty texts are one set of their own.

    Example: "red", "Red.", "blue", "red" give 2.

    Args:
        nli: NLI model for entailment.
        sets: `clusters`: those of semantic_entropy. `components`: of the graph in which two draws are joined where, in both directions,
            entailment is likelier than contradiction, as in LM-Polygraph; a chain of such draws is one set.
    """
    model = context.nli(nli, "contradiction" if sets == "components" else "entailment")
    if sets == "clusters":
        counts = [len(np.unique(labels)) for labels in clusters(model, draw_texts)]
    else:
        counts = [_components(logits) for logits in infer_all_pairs(model, draw_texts)]
    return np.array([n if len(t) > 1 else np.nan for n, t in zip(counts, draw_texts, strict=True)], dtype=np.float64)


def _components(logits: Floats) -> int:
    follows = logits[..., ENTAILMENT] > logits[..., CONTRADICTION]
    return int(connected_components(follows & follows.T, directed=False, return_labels=False))
