"""Self-consistency: how many sampled answers agree with the answer.

Wang et al., ICLR 2023; as a confidence Si et al., ICLR 2023 (2210.09150); by NLI SelfCheckGPT (Manakul et al., EMNLP 2023).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from qualm.registry.plugins.registry import Chosen, Kind
from qualm.runners.contracts.estimators import EstimatorContext, Floats, Texts
from qualm.runners.plugins.estimators._likeness import likeness_to

CITES = ["wang2023selfconsistency", "manakul2023selfcheckgpt"]
NEEDS = {"text": "text", "draw_texts": "draw_texts"}


def self_consistency(
    context: EstimatorContext,
    text: Sequence[str],
    draw_texts: Texts,
    *,
    similarity: Literal["entailment", "contradiction", "cosine", "jaccard"] = "entailment",
    nli: Annotated[Chosen, Kind("nli")] = "lexical",
) -> Floats:
    """Return 1 minus the mean likeness of sampled answers to each greedy answer, in [0, 1].

    U = 1 - (1/N) sum_i s(y, y_i), s the likeness of the greedy answer y and draw y_i, on average over both directions; in [0, 1], higher =
    more uncertain. With the `lexical` nli it is the share of draws that give another answer. A model of inference makes it the
    non-contradiction score of uqlm and SelfCheckGPT (`similarity: contradiction`), there read in one direction or per sentence. `cocoa`
    multiplies it with the answer's own uncertainty. Undefined without draws.

    Example: greedy "red", draws "red", "blue", "Red.", "green" give .5.

    Args:
        similarity: likeness is the probability of entailment, 1 minus that of contradiction, (1 + cosine of the embeddings) / 2, or shared
            words over all words (Jaccard).
        nli: NLI model for entailment, or an encoder (`embedding`) for cosine; not used with jaccard.
    """
    alike = likeness_to(context, text, draw_texts, similarity, nli)
    return np.array([1.0 - s.mean() if len(s) else np.nan for s in alike], dtype=np.float64)
