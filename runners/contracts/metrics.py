"""Contract of metrics: columns of scored samples in, one number per resample out.

A plugin `NAME.py` has these constants and functions:

        HIGHER_IS_BETTER = True          # or False; None if neither direction is better
        OVER = "gt_is_idk"               # optional: the metric is over rows where this column is 1, and n counts those;
                                         # {"flag": "clean_correct"}: only if the parameter `flag` is set
        TEST = "exchange"                # optional: test of a perturbation's effect (`qualm.runners.scoring.perturbed.perturbation_tests`):
                                         # against the value with clean and perturbed answers exchanged, or `independence`: against 0
        INTERVAL = "proportion"          # optional: method of its interval (`qualm.runners.scoring.limits`); no interval without it;
                                         # "own" with a function `interval(columns..., group, level, *, parameters...) -> (low, high)`,
                                         # or a text, the reason why there is none;
                                         # "none" if no interval of it is known to have its coverage
        WHY_NO_INTERVAL = "..."          # only with "none": the reason, for the report
        COMPARED_BY = "ece_debiased"     # optional: the unbiased metric, with a parameter `squared`, by which two models are compared,
                                         # where the bias of this one depends on the model
        TARGET = "1 - alpha"             # optional: its nominal value, by the conformal setting; shown with a band
        ROW_BY_ROW = True                # optional, for metrics of sums: each summed row depends only on the same row of the columns, so
                                         # that many resamples with different columns (fits, sets of parts) are evaluated at once
        INCREASES_WITH = "correct"       # optional: an argument of ratings from 0 to 1 with which the metric never falls, so that it lies
                                         # between its values with all unread answers wrong and all right
        ASSUMES = "..."                  # optional: condition under which its values hold, shown below them
        COMPANIONS = ["best_f1_floor"]   # optional: metrics that are always computed beside it, without which it misleads

        CONTRASTS = {"kind": {"rank*": "classes", "*": "none"}}   # optional: which of its functions `classes` and `types` holds
        ONLY_WITH = {"beta": {"kind": ["f_score"]}}   # optional: a parameter, or parameter=value, and the values of another one with which
                                         # it has a meaning; anything else is an error of `qualm validate`

        NEEDS = {"groups": "group_of_{by}"}   # optional: columns that depend on parameters (`qualm.registry.plugins.columns`)

        def NAME(column: Floats, ..., weights: Weights, *, parameter: type = default) -> Floats
        def why_undefined(column: Floats, ..., *, parameter...) -> str    # optional: reason why there is no value over these rows
        def classes(column: Floats, ..., *, parameter...) -> Floats       # optional, if it contrasts two classes of rows: 1 for one;
                                                                          # with few groups of either there is no interval (unless it
                                                                          # is its own), with few rows no comparison of models
        def types(column: Floats, ..., *, parameter...) -> Floats         # optional, if it averages over types of rows: the type of
                                                                          # each; with few groups of one there is no interval
        def enters(column: Floats, ..., *, parameter...) -> Floats        # optional, for metrics that look at single weights: 1 for rows
                                                                          # in the denominator. Of metrics of sums these are the rows
                                                                          # of which anything but 0 is summed; so sum no column that
                                                                          # the value does not need
        def null_test(column: Floats, ..., group, *, parameter...) -> tuple[float, str]   # optional: p-value, and description, of the
                                                                          # hypothesis that only chance keeps the metric from being perfect
        def chance(column, ..., *, parameter...) -> float   # optional: expected value of an uncertainty without information on these rows
        def bounds(column, ..., *, parameter...) -> tuple[float, float]   # optional: lowest and highest possible value, which intervals
                                                                          # respect; by default [0, 1] for `proportion` and `optimistic`,
                                                                          # [-1, 1] for `correlation`. Arguments are any columns below, and
                                                                          # `never_empty`: 1 if a prediction set has an option at every
                                                                          # threshold
        def least_error(column: Floats, ..., value: float, *, parameter...) -> float   # optional: standard error of independent rows if
                                                                          # this was the value; a lower bound for the standard error

- HIGHER_IS_BETTER, INTERVAL, WHY_NO_INTERVAL and CONTRASTS may depend on a parameter: {"kind": {"loss*": False, "*": True}}; the first
  pattern that matches counts. All given parameters of such a metric stand in its label.
- Positional arguments are named after the columns that they read, `weights` last:

  | column | meaning |
  |---|---|
  | correct | 0..1: right option chosen, or the judge's rating of an open answer |
  | confidence | 0..1: largest softmax over the options; for an open answer by `inference.confidence` |
  | answerable | 1 if the question can be answered |
  | uncertain | 1 if the question is meant to be uncertain: by the dataset's `uncertain:`, else if it is unanswerable |
  | fold | 0 or 1: half of the dataset's groups that the row is in, for metrics that choose something on other rows |
  | predicted, n_options | index of the likeliest option, number of options (multiple choice only) |
  | option_probabilities | (n, K), the only column of two dimensions: softmax over a question's options, 0 beyond the last one |
  | right_option | index of the right option (multiple choice only) |
  | is_calibration | 1 if a conformal setting calibrates on the row, else 0; all 0 without a setting |
  | covered, set_size | of a row's prediction set, for one conformal setting and score |
  | says_uncertain | 1 if the model says that the question is uncertain, for a dataset with `ask_answerable:` |
  | uncertainty | of one estimator, HIGHER = MORE UNCERTAIN, may be infinite |
  | clean_correct, clean_uncertainty | of the same sample, model and estimator on the clean input |
  | uncertainty_change | uncertainty - clean_uncertainty; missing if that is not finite |
  | input_changed | 1 if a perturbed sample's prompt or pixels differ from the clean ones, else 0 |
  | pred_is_idk, gt_is_idk | 1 if the answer abstains, if abstaining is right (open answers only) |
  | hedges | 1 if the answer has a caveat, 0 if it has none or abstains (open answers only) |
  | labelled | 1 if people rated the answer (`judging: {labels: ...}`), else 0 (answers in words only) |
  | people_rating | 0..1: mean rating by people; 0 where `labelled` is 0 (answers in words only) |
  | sampled_correct | mean rating of the question's sampled answers, by the judge whose ratings are scored (answers in words only) |
  | sampling_variance | variance of that mean over further sampled answers: s^2 / k, with s^2 the variance of k ratings |
  | rated_by_NAME | rating by the judge labelled NAME, whichever judge `correct` comes from (open answers only) |
  | marked_by_NAME/MARK | further measure of that judge, if it has one (`Judgement.marks`; open answers only) |
  | rated_by_, marked_by_/MARK | the same for the judge whose ratings are scored: the dataset's first, else the spec's |
  | group_of_FIELD | a number for each value of a field or meta key of the samples: rows of one value stand or fall together |
  | code_of_FIELD | the same, of values that are kinds (a subtask) and not groups |

- Every column is float64 without NaN, (n,) except `option_probabilities`. Rows that lack a column which the metric reads are left out by
  the caller and counted as unscored.
- A metric that reads `group_of_FIELD` or `code_of_FIELD` is over the samples that have FIELD, and is skipped for datasets without it.
  `group_of_group` are the samples' own groups; a sample without one is a group. If a row of a `group_of_` is unscored, all rows of that
  group are. For a comparison of two models the groups of each are kept apart.
- `weights` is a (B, n) matrix of counts: row b says how often resample b contains each row. `weights @ column` -> (B,) and `weights @
  columns` (n, m) -> (B, m) are much cheaper than `np.asarray(weights)`; use them if the metric is made of sums. A (B, n) array works too.
  Sums of many products of two columns are cheaper by `sum_products`, sums within bins by `sum_bins`
  (`qualm.runners.contracts.grouped_weights`). The point estimate has weights of one. The columns that a metric of sets sums must not
  depend on weights or on other sums.
- The result is (B,): NaN if the metric is undefined for that resample, never a substitute such as 0.
- Values are shown unchanged, to three decimals; a share is a fraction of 1. The docstring names any other unit (options, points, a sum of
  two scores).
- A metric that reads a `clean_...` column or `uncertainty_change` pairs each row of a perturbed variant with the sample's clean row. It
  is undefined for the clean variant, and if that was not run; samples that a perturbation cannot be applied to are unscored. It is also
  computed over the samples whose input changed (slice `changed`), if some did not.
- A metric that reads `is_calibration` is over test rows, unless its parameter `rows` is "all"; n counts accordingly. With "all" it does
  not depend on the setting, and all settings share one value.

A metric is evaluated per conformal setting and score and as the mean over the scores (`set_size[ours/lac]`, `[ours/mean]`), per setting
(`accuracy[ours]`), per estimator (`auroc[perplexity]`), or once, by the columns that it reads. One that reads `confidence` and no
sets is also evaluated on each recalibrated confidence (`ece[held_out/platt]`).
"""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights as GroupedWeights

Floats = NDArray[np.float64]
Weights: TypeAlias = NDArray[np.float64] | GroupedWeights


def lacking(column: Floats) -> NDArray[np.bool_]:
    """Return a mask (n,) of rows without a value."""
    missing: NDArray[np.bool_] = np.asarray(np.isnan(column).any(axis=tuple(range(1, column.ndim))))
    return missing


def ratio(part: Floats, whole: Floats) -> Floats:
    """Divide, with NaN for a denominator of 0."""
    if part.shape != whole.shape:
        part, whole = np.broadcast_arrays(part, whole)
    result: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)
    return result


def mean(column: Floats, chosen: Floats, weights: Weights) -> Floats:
    """Return the weighted mean of a column over the rows where `chosen` is 1."""
    sums = weights @ np.column_stack([column * chosen, chosen])
    return ratio(sums[:, 0], sums[:, 1])


def chosen_rows(is_calibration: Floats, rows: str) -> Floats:
    """Return 1 for each row that a metric is over: test rows, or all if `rows` is "all"."""
    return np.ones_like(is_calibration) if rows == "all" else 1 - is_calibration


def whole_groups(right: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Return for each row 1 if its whole group is right, and the size of the group.

    >>> whole_groups(np.array([1.0, 1, 0]), np.array([7.0, 7, 3]))
    (array([1., 1., 0.]), array([2., 2., 1.]))
    """
    place = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(place)
    failed = np.bincount(place, right < 1)
    return (failed == 0)[place].astype(np.float64), size[place].astype(np.float64)


def one_class(uncertain: Floats) -> str:
    """Return why uncertain and clear questions cannot be compared."""
    return "no scored question is uncertain" if not uncertain.any() else "every scored question is uncertain"


@cache
def torchmetric(name: str) -> type[Any]:
    """Return a metric plugin as a `torchmetrics.Metric` class.

    The class takes the plugin's parameters; `update` takes the columns it reads, in its order and without weights, one
    batch at a time; `compute` gives the value over all batches of all processes.

    Example:
        >>> import torch
        >>> metric = torchmetric("ece")(bins=5, rows="all")
        >>> metric.update(confidence=torch.tensor([0.9, 0.8]), correct=torch.tensor([1, 0]), is_calibration=torch.zeros(2))
        >>> round(float(metric.compute()), 4)
        0.35
    """
    import torch
    from torchmetrics import Metric
    from torchmetrics.utilities.data import dim_zero_cat

    from qualm.registry.plugins import rule

    plugin, function = rule.get("metrics", name), rule.load("metrics", name)
    columns = [c for c in plugin.reads if c != "weights"]

    class PluginMetric(Metric):
        higher_is_better = plugin.declares.get("HIGHER_IS_BETTER")
        is_differentiable = False
        full_state_update = False

        def __init__(self, **parameters: Any) -> None:
            super().__init__()
            self.parameters_of_plugin = parameters
            for column in columns:
                self.add_state(column, default=[], dist_reduce_fx="cat")

        def update(self, *values: torch.Tensor, **named: torch.Tensor) -> None:
            by_column = dict(zip(columns, values, strict=False)) | named
            if set(by_column) != set(columns):
                raise TypeError(f"{name}.update: expected columns {', '.join(columns)}; got {', '.join(by_column) or 'none'}")
            for column, value in by_column.items():
                values_of_batch = value.detach().to(torch.float64)
                getattr(self, column).append(values_of_batch if value.ndim == 2 else values_of_batch.flatten())

        def compute(self) -> torch.Tensor:
            arrays = [dim_zero_cat(getattr(self, c)).cpu().numpy() for c in columns]
            return torch.tensor(function(*arrays, np.ones((1, len(arrays[0]))), **self.parameters_of_plugin)[0])

    PluginMetric.__name__ = PluginMetric.__qualname__ = "".join(w.title() for w in name.split("_"))
    return PluginMetric
