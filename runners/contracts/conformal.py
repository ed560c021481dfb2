"""Nonconformity scores: how badly each option fits a question, from the probabilities of all its options.

The contract of a plugin `NAME.py`:

    def NAME(probs: Floats, *, parameter: type = default) -> Floats

- `probs` is (n, K): softmax over a question's own options, never over a vocabulary. Questions with fewer than
  K options are padded on the right with NaN, and the result is NaN there and only there. It is float64, or float32 under
  `precision: single`: what is summed up then stays float32.
- The result is (n, K): the score of EVERY option, HIGHER = FITS WORSE. Row i is calibrated with the score of its right
  option; its prediction set is every option whose score is at most the threshold.
- Deterministic, row by row: a row's scores depend on that row alone, or the coverage guarantee is lost.

The split, the threshold and the sets are the same for all scores and live in `runners/scoring/conformal/sets.py`.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
