"""Token negentropy, as uqlm computes it (Bouchard and Chauhan, 2025)."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from qualm.runners.contracts.estimators import Draws, Floats, means

CITES = ["bouchard2025generalized"]
NEEDS = ["top_logprobs"]


def token_negentropy(
    top_logprobs: Draws, *, over: Literal["mean", "min"] = "mean", k: Annotated[int, Ge(2), Le(100)] | None = None
) -> Floats:
    """Return each answer's mean (or max) token entropy over the k likeliest, divided by ln k.

    U = (1/T) sum_t H_t with H_t = -sum_j p_tj ln p_tj / ln k over the k likeliest tokens; for `min`, U is the largest H_t. The
    probabilities are those of the whole vocabulary, not divided by their sum; the remaining probability counts for nothing. In [0, 1], or
    up to 2 / (e ln 2) = 1.062 for k = 2; higher = more uncertain. uqlm's `mean_token_negentropy` and `min_token_negentropy` are 1 - U.
    Undefined for an empty generation, and where fewer than k tokens are stored.

    Example: probabilities (.9, .1), (.5, .3), (.8, .1) give .693274, and 1.021090 for `min`.

    Args:
        over: the mean over tokens, or the token of least negentropy.
        k: likeliest tokens that are read; null is all that are stored: 20 of a local model, the `logprobs` of a server.
    """
    rows = [np.array([_entropy(p, k) for p in own], dtype=np.float64) for own in top_logprobs]
    return means(rows) if over == "mean" else np.array([row.max() if len(row) else np.nan for row in rows], dtype=np.float64)


def _entropy(logprobs: Floats, k: int | None) -> float:
    own = logprobs[:k]
    if len(own) < (k or 2):
        return float("nan")
    return float(-(np.exp(own) * own).sum() / np.log(len(own)) + 0.0)
