"""Classification with valid and adaptive coverage. Romano, Sesia, Candes, 2020 (NeurIPS)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Floats

CITES = ["romano2020classification"]


def aps(probs: Floats, *, ties: Literal["together", "sorted"] = "together") -> Floats:
    """Return (n, K) sums of the probabilities of options at least as likely as this one (APS).

    S(x, y) = sum of p_j over all j with p_j >= p_y, the option's own mass included. Higher = fits worse; range (0, 1].

    Args:
        probs: (n, K), NaN beyond a question's last option.
        ties: What options of equal probability get. `together`: all of them the larger sum, as the definition says
            (VLM-Uncertainty-Bench, equation 4), and no sum above 1, so that rounding never puts the least likely option above a
            threshold of 1. `sorted`: running sums, as that paper's released code has them, so that equal options get different
            ones: needed to rebuild its tables, since logits of half-precision models tie often. Which of them comes first is
            arbitrary, so this is not the default; it is the same arbitrary order as theirs (`_network.py`).
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


LANES = 8
"""Least width of the sorting network; unused places hold infinity and stay at the end."""


def ascending(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return (n, K) indices that sort each row in ascending order, as a sorting network does.

    >>> ascending(np.array([[1.0, 1, 0, 0, 0, 0]])).tolist()
    [[3, 2, 5, 4, 0, 1]]
    """
    n, k = values.shape
    width = max(LANES, 1 << (k - 1).bit_length())
    sorted_ = np.full((n, width), np.inf)
    sorted_[:, :k] = values
    order = np.tile(np.arange(width), (n, 1))
    for low, high in _network_layers(width):
        swap = sorted_[:, low] > sorted_[:, high]
        for lanes in (sorted_, order):
            left, right = lanes[:, low], lanes[:, high]
            lanes[:, low], lanes[:, high] = np.where(swap, right, left), np.where(swap, left, right)
    return order[:, :k]


def _network_layers(width: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield (lower, upper) places to compare in each layer of a sorting network; width is 2^k."""
    place = np.arange(width)
    size = 2
    while size <= width:
        steps = [size - 1, *(size >> shift for shift in range(2, size.bit_length()))]
        for step in steps:
            low = place[place < place ^ step]
            yield low, low ^ step
        size *= 2
