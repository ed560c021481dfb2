"""Split conformal prediction on arrays: calibrated thresholds and prediction sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from qualm.compiler.results.array_columns import ArgumentError, Floats, as_list, common_length, floats, option_floats
from qualm.compiler.results.array_functions import reference
from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import UNIFORM
from qualm.runners.scoring.calibration import conformal_sets

EmptySet = Literal["argmax", "empty"]
Quantile = Literal["standard", "numpy_higher"]


@dataclass(frozen=True)
class ConformalThreshold:
    """Calibrated conformal threshold with its settings, made by `calibrate`."""

    threshold: float
    """The largest score that a set admits; infinity where there are too few calibration groups for `alpha`: sets hold every option."""
    alpha: float
    n_calibration: int
    n_groups: int
    """Calibration groups; as many as questions where no groups were given."""
    score: str
    args: Mapping[str, Any]
    empty_set: EmptySet

    def sets(self, probabilities: Any, uniform: Any = None) -> NDArray[np.bool_]:
        """Return a boolean mask (n, K): True for the options in each prediction set.

        Args:
            probabilities: (n, K) or n lists: softmax over a question's own options; fewer options are padded with NaN.
            uniform: (n,) numbers in [0, 1), of a randomised score.

        Returns:
            (n, K).
        """
        probs = _options(probabilities)
        inside, _ = conformal_sets.prediction_sets(_scores(self.score, self.args, probs, uniform), probs, self.threshold, self.empty_set)
        return inside


def calibrate(
    probabilities: Any,
    right_options: Any,
    *,
    groups: Any = None,
    score: str | Mapping[str, Any] = "lac",
    alpha: float = 0.1,
    quantile: Quantile = "standard",
    empty_set: EmptySet = "argmax",
    uniform: Any = None,
) -> ConformalThreshold:
    """Return the conformal threshold calibrated on questions with known right options.

    Without groups it is the k-th smallest score of the right options, k = ceil((n + 1)(1 - alpha)) (split conformal prediction; Vovk,
    Gammerman, Shafer, 2005). Sets by it hold the right option with a chance of at least 1 - alpha, on average over draws of calibration and
    test questions that are exchangeable: not for each question or kind of question, and not given these calibration questions.

    Questions that belong together (on one image) are not exchangeable with a question of a new image: give their `groups`, and keep each
    group on one side. The threshold is then the 1 - alpha quantile of the scores, each of mass 1 / (K + 1) / (questions of its group), and
    of infinity, of mass 1 / (K + 1), for K groups (hierarchical conformal prediction; Lee, Barber, Willett, 2023). Sets hold the right
    option with a chance of at least 1 - alpha for a question drawn at random from a new group that is exchangeable with these: on average
    over groups, each of which counts once. The share of all questions that is covered can be lower where larger groups have worse scores.

    Args:
        probabilities: (n, K) or n lists: softmax over a question's own options; fewer options are padded with NaN.
        right_options: (n,) index of the right option.
        groups: (n,) text or number of each question's group; a question without one (None) is a group by itself. By default all are.
        score: A nonconformity score: `lac`, `aps`, `raps`... (`dir(qualm.conformal)` lists them), or {name: {parameters}}.
        alpha: The share of sets that may lack the right option.
        quantile: `standard`, or `numpy_higher`, as VLM-Uncertainty-Bench's code has it, which takes no groups.
        empty_set: What becomes of a set that no option enters: `argmax` puts the best-scored option in it.
        uniform: (n,) numbers in [0, 1), of a randomised score.

    Raises:
        ArgumentError: a right option is none of the question's, a number is missing, or alpha is not between 0 and 1.

    Example:
        >>> import numpy as np, qualm
        >>> rng = np.random.default_rng(0)
        >>> probabilities = rng.dirichlet(np.ones(4), size=4000)
        >>> right = np.array([rng.choice(4, p=row) for row in probabilities])
        >>> calibrated = qualm.conformal.calibrate(probabilities[:2000], right[:2000], alpha=0.1)
        >>> sets = calibrated.sets(probabilities[2000:])
        >>> covered = sets[np.arange(2000), right[2000:]].mean()
        >>> print(f"{covered:.2f}, {sets.sum(axis=1).mean():.1f} options")
        0.91, 2.6 options
    """
    if not 0 < alpha < 1:
        raise ArgumentError(f"alpha: expected a number between 0 and 1, got {alpha}")
    for name, value, kind in (("quantile", quantile, Quantile), ("empty_set", empty_set, EmptySet)):
        if value not in get_args(kind):
            raise ArgumentError(f"{name}: expected {' or '.join(get_args(kind))}, got '{value}'")
    ref = reference("conformal", score)
    probs, right = _options(probabilities), floats("right_options", right_options)
    columns: dict[str, Any] = {"probabilities": probs, "right_options": right}
    units = None
    if groups is not None:
        if quantile != "standard":
            raise ArgumentError(f"groups: {quantile} counts each question as independent; use quantile='standard', or leave groups out")
        columns["groups"] = as_list(groups)
        code: dict[Any, int] = {}
        alone = [("alone", row) if name is None else name for row, name in enumerate(columns["groups"])]
        units = np.array([code.setdefault(name, len(code)) for name in alone], dtype=np.int64)
    n = common_length(columns)
    if np.isnan(right).any() or (right % 1 != 0).any() or (right < 0).any() or (right >= probs.shape[1]).any():
        raise ArgumentError(f"right_options: expected the index of an option, 0 to {probs.shape[1] - 1}, for each question")
    scores = _scores(ref.plugin.name, ref.args, probs, uniform)[np.arange(n), right.astype(np.int64)]
    if lacking := int(np.isnan(scores).sum()):
        raise ArgumentError(f"right_options: of {lacking:,} questions the right option has no probability; give one for every option")
    limit = conformal_sets.threshold(scores, alpha, quantile, units)
    return ConformalThreshold(limit, alpha, n, n if units is None else len(np.unique(units)), ref.plugin.name, ref.args, empty_set)


def _options(probabilities: Any) -> Floats:
    """Return probabilities (n, K), NaN beyond the options; ArgumentError if not summing to 1."""
    probs = option_floats("probabilities", probabilities)
    if (probs < 0).any() or not np.allclose(np.nansum(probs, axis=1), 1, atol=1e-3):
        raise ArgumentError("probabilities: expected numbers from 0 that sum to 1 over each question's options; apply a softmax to logits")
    return probs


def _scores(name: str, args: Mapping[str, Any], probs: Floats, uniform: Any) -> Floats:
    function, reads = registry.load("conformal", name), registry.get("conformal", name).reads
    if UNIFORM not in reads:
        return np.asarray(function(probs, **args), dtype=np.float64)
    if uniform is None and args.get("randomised") is False:
        uniform = np.zeros(len(probs))  # read by nothing then
    if uniform is None:
        raise ArgumentError(f"{name} is randomised: expected `uniform`, a number in [0, 1) for each question")
    numbers = floats(UNIFORM, uniform)
    common_length({"probabilities": probs, UNIFORM: numbers})
    return np.asarray(partial(function, probs, numbers)(**args), dtype=np.float64)
