"""Contract of nonconformity scores: how badly each option fits a question, from the options' probabilities.

A plugin `NAME.py` has the function

    def NAME(probs: Floats, *, parameter: type = default) -> Floats
    def NAME(probs: Floats, uniform: Floats, *, parameter: type = default) -> Floats    # randomised

- `probs` (n, K) is the softmax over a question's own options, not over a vocabulary. Rows with fewer than K options are padded on the right
  with NaN, and the result is NaN exactly there. It is float64, or float32 under `precision: single`, where sums must stay float32.
- The result (n, K) scores EVERY option, HIGHER = FITS WORSE. The score of a question's right option is used for calibration; its prediction
  set has all options with scores up to the threshold.
- `uniform` (n,) are numbers in [0, 1), determined by question and seed of the setting (`calibration: {seed}`), equal for all models and
  variants. A score uses no other random numbers.
- Scores are deterministic, and a row's scores depend on that row only; otherwise coverage is not guaranteed.

The guarantee is the same for all scores: a set contains the right option with probability at least 1 - alpha, on average over draws of
exchangeable calibration and test questions (two parts of a random split). Where questions have groups and `split: groups`, groups are
exchangeable, and it holds for a question drawn at random from a new group, each group counting once. It does not hold for each question,
category or option, for a given draw of the calibration questions, or for perturbed inputs.

Split, threshold and sets are in `runners/scoring/conformal/sets.py`.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
UNIFORM = "uniform"
"""Name of the second parameter of randomised scores."""
