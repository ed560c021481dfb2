"""The k likeliest options: Angelopoulos, Bates, Malik, Jordan, 2021 (ICLR), their fixed-size baseline; MAPIE's `top_k`."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["angelopoulos2021uncertainty"]
ALSO_KNOWN_AS = ["topk", "fixed_size", "naive_top_k"]


def top_k(probs: Floats) -> Floats:
    """Return (n, K) ranks of the options by probability, 1 the likeliest: sets of equal size.

    S(x, y) = number of options at least as likely as y. Higher = fits worse. The sets say nothing of a question, only how many of the
    likeliest options must be named to cover 1 - alpha: a baseline that an adaptive score has to beat. Ranks tie for many questions, so
    coverage can be well above 1 - alpha. Options that are equally likely have the larger rank, all of them.

    Args:
        probs: (n, K), NaN beyond a question's last option.
    """
    return np.where(np.isnan(probs), np.nan, (probs[:, None, :] >= probs[:, :, None]).sum(axis=2))
