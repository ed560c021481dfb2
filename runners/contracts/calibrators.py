"""Contract of calibrators: turn scores of answers into probabilities of being right.

A plugin `NAME.py` has the function

    OPTIONS = True                   # optional: takes all options of a multiple-choice question at once
    PROBABILITIES = True             # optional: recalibrates probabilities only, no other scores

    def NAME(score: Floats, right: Floats, weights: Weights, at: Floats, *, parameter: type = default) -> Floats

- `score` (n,) are finite scores of the answers for fitting, HIGHER = MORE LIKELY RIGHT: the log odds log(p / (1 - p)) of a confidence, or
  an estimator's uncertainty with its sign turned. `right` (n,) is 0..1; a judge's half counts half.
- `weights` is a (B, n) matrix as for metrics: how often resample b contains each answer. `weights @ column` sums, `np.asarray(weights)` is
  the full matrix. The sample itself is one row of ones.
- `at` (m,) are scores to convert. The result is (B, m): the probability that an answer with that score is right, by the fit to each
  resample; NaN in a row without a fit. A probability depends only on its own score.
- Each option of a multiple-choice question is passed as an answer: the log odds of its probability, right if it is the right option. The
  results are divided by their sum over the options. With `OPTIONS`, the plugin gets log-probabilities `score` (n, K), NaN beyond the last
  option, `right` (n, K) with a single 1 per row, and `at` (m, K), and returns (B, m, K), which sums to 1 over each question's options.

A method with an uncertainty of its own may have `interval(score, right, weights, at, *, same parameters)`, which returns both ends, (2, B,
m). They are stored in `recalibrated.parquet`, except for multiple choice.

`qualm.runners.scoring.recalibration` selects the rows for fitting, none of which is scored, and decides how many are too few.
"""

from qualm.runners.contracts.grouped_weights import Floats as Floats
from qualm.runners.contracts.grouped_weights import Weights as Weights
