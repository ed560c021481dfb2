"""Classification with valid and adaptive coverage. Romano, Sesia, Candes, 2020 (NeurIPS)."""

from typing import Literal

import numpy as np

from qualm.runners.contracts.conformal import Floats
from qualm.runners.plugins.conformal._network import ascending

CITES = ["romano2020classification"]


def aps(probs: Floats, *, ties: Literal["together", "sorted"] = "together") -> Floats:
    """Adaptive prediction sets, deterministic form: the mass of the options at least as likely as this one.

    S(x, y) = sum of p_j over all j with p_j >= p_y, the option's own mass included. Higher = fits worse; range (0, 1].

    Args:
        probs: (n, K), NaN beyond a question's last option.
        ties: What options of equal probability get. `together`: all of them the larger sum, as the definition says
            (VLM-Uncertainty-Bench, equation 4), and no sum above 1, so that rounding never puts the least likely option above a
            threshold of 1. `sorted`: running sums, as that paper's released code has them, so that equal options get different
            ones: needed to rebuild its tables, since logits of half-precision models tie often. Which of them comes first is as
            good as chance, so it is not the default; it is the same chance as theirs (`_network.py`).

    Returns:
        (n, K) scores, NaN where `probs` is.
    """
    mass = np.nan_to_num(probs, nan=0.0)
    if ties == "sorted":
        order = ascending(np.where(np.isnan(probs), np.inf, probs))[:, ::-1]
        sums = np.take_along_axis(mass, order, axis=1).cumsum(axis=1)
        scores = np.take_along_axis(sums, order.argsort(axis=1), axis=1)
    else:
        at_least = probs[:, None, :] >= probs[:, :, None]
        scores = np.minimum((mass[:, None, :] * at_least).sum(axis=2), 1.0)
    return np.where(np.isnan(probs), np.nan, scores)
