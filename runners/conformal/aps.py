"""Classification with valid and adaptive coverage. Romano, Sesia, Candes, 2020 (NeurIPS)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from runners.conformal import Floats

CITES = ["romano2020classification"]


def aps(probs: Floats, *, ties: Literal["together", "sorted"] = "together") -> Floats:
    """Adaptive prediction sets, deterministic form: the mass of the options at least as likely as this one.

    S(x, y) = sum of p_j over all j with p_j >= p_y, the option's own mass included. Higher = fits worse; range (0, 1].
    Sums are clipped to 1, so that rounding never puts the least likely option above a threshold of 1.

    Args:
        probs: (n, K), NaN beyond a question's last option.
        ties: What options of equal probability get. `together`: all of them the larger sum, as the definition says
            (VLM-Uncertainty-Bench, equation 4). `sorted`: running sums in the order of numpy's (unstable) `argsort`, so
            that equal options get different sums, as that paper's released code does; needed to rebuild its tables, since
            logits of half-precision models tie often. An accident of sorting then favours one, so it is not the default.

    Returns:
        (n, K) scores, NaN where `probs` is.
    """
    mass = np.nan_to_num(probs, nan=0.0)
    if ties == "sorted":
        # numpy promises nothing of ties in its default sort; its heapsort is plain code and orders them as the authors' run did
        order = np.argsort(np.where(np.isnan(probs), -1.0, probs), axis=1, kind="heapsort")[:, ::-1]
        sums = np.take_along_axis(mass, order, axis=1).cumsum(axis=1)
        scores = np.take_along_axis(sums, order.argsort(axis=1), axis=1)
    else:
        at_least = probs[:, None, :] >= probs[:, :, None]
        scores = (mass[:, None, :] * at_least).sum(axis=2)
    return np.where(np.isnan(probs), np.nan, np.minimum(scores, 1.0))
