"""The bitonic sorting network of K. E. Batcher, 1968 (AFIPS), written out: ties end up where it leaves them, on every machine.

Lost without it: numpy's `argsort`, by whatever `kind` but `stable`, orders equal numbers by the vector instructions that the processor
has. With AVX2 or AVX-512 it runs this network over lanes of eight, which is what VLM-Uncertainty-Bench's tables were made with.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

LANES = 8
"""The network is at least as wide; places that a row does not fill hold infinity and stay at the end."""


def ascending(values: NDArray[np.floating]) -> NDArray[np.int64]:
    """(n, K) -> (n, K): the order in which the network sorts each row, smallest first.

    >>> ascending(np.array([[1.0, 1, 0, 0, 0, 0]])).tolist()
    [[3, 2, 5, 4, 0, 1]]
    """
    n, k = values.shape
    width = max(LANES, 1 << (k - 1).bit_length())
    sorted_ = np.full((n, width), np.inf)
    sorted_[:, :k] = values
    order = np.tile(np.arange(width), (n, 1))
    for low, high in _layers(width):
        swap = sorted_[:, low] > sorted_[:, high]
        for lanes in (sorted_, order):
            left, right = lanes[:, low], lanes[:, high]
            lanes[:, low], lanes[:, high] = np.where(swap, right, left), np.where(swap, left, right)
    return order[:, :k]


def _layers(width: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Places that are compared at the same time: runs of 2, 4, 8... are merged, each by a mirrored layer and then halves of it."""
    place = np.arange(width)
    size = 2
    while size <= width:
        steps = [size - 1, *(size >> shift for shift in range(2, size.bit_length()))]
        for step in steps:
            low = place[place < place ^ step]
            yield low, low ^ step
        size *= 2
