"""The margin between an option and its best rival. Johansson, Linusson, Lofstrom, Bostrom, 2017 (IJCNN)."""

import numpy as np

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["johansson2017model"]


def margin(probs: Floats) -> Floats:
    """Return (n, K) scores: the likeliest other option's probability minus this option's.

    S(x, y) = max of p_j over j other than y, minus p_y. Higher = fits worse; range [-1, 1]; of a question's only option -p_y. Ranks options
    within a question as `lac` does, and questions by how close the best two options are; elsewhere it is (1 + S) / 2, with the same sets.

    Args:
        probs: (n, K), NaN beyond a question's last option.
    """
    filled = np.where(np.isnan(probs), 0.0, probs).astype(np.float64)
    best = filled.argmax(axis=1)
    rows = np.arange(len(filled))
    rival = np.repeat(filled[rows, best, None], filled.shape[1], axis=1)
    without = filled.copy()
    without[rows, best] = 0.0
    rival[rows, best] = without.max(axis=1)
    return np.where(np.isnan(probs), np.nan, rival - filled)
