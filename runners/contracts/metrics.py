"""Metrics: columns of scored samples in, one number per (re)sample out.

The contract of a plugin `NAME.py`:

    HIGHER_IS_BETTER = True          # or False; None where neither direction is better
    OVER = "gt_is_idk"               # optional: the metric is over rows where this column is 1, and n counts those;
                                     # {"flag": "clean_correct"}: only where the parameter `flag` is set
    TEST = "exchange"                # optional: how `qualm.runners.scoring.perturbed.perturbation_tests` asks whether a perturbation
                                     # did it, or `independence`; the latter with a
                                     # function `correlated(columns..., *, parameters...) -> (rows it is over, x, y)`
    INTERVAL = "proportion"          # optional: its interval's method, of `qualm.runners.scoring.limits`; without it there is no interval;
                                     # "own" with a function `interval(columns..., group, level, *, parameters...) -> (low, high)`,
                                     # "none" where no interval of it is known to hold the truth as often as it says
    WHY_NO_INTERVAL = "..."          # with "none", and only there: why, in words for the report
    TARGET = "1 - alpha"             # optional: what it should come to, by the conformal setting; a band stands beside it
    ROW_BY_ROW = True                # optional, of a metric made of sums: each row of what it sums is made of the same row of its columns
                                     # alone, so that many resamples with columns of their own (fits, sets of parts) are evaluated at once
    ORDINAL = ["uncertainty"]        # optional: arguments of which only the order within one model counts, together where there are
                                     # several. Where two models are compared each one's are replaced by their ranks before answers
                                     # are exchanged, since their scales may differ
    INCREASES_WITH = "correct"       # optional: an argument of ratings from 0 to 1 with which the metric never falls, so that it lies
                                     # between its values with all unread answers wrong and all right
    COMPANIONS = ["best_f1_floor"]   # optional: metrics that are always computed beside it, without which it misleads

    NEEDS = {"groups": "group_of_{by}"}   # optional: the column by the metric's other parameters (`qualm.registry.plugins.columns`)

    def NAME(column: Floats, ..., weights: Weights, *, parameter: type = default) -> Floats
    def why_undefined(column: Floats, ..., *, parameter...) -> str    # optional: why there is no value over these rows
    def classes(column: Floats, ..., *, parameter...) -> Floats       # optional, where two classes of rows are set against each
                                                                      # other: 1 for those of the one; few of either, no interval
    def null_test(column: Floats, ..., group, *, parameter...) -> tuple[float, str]   # optional: p-value of the hypothesis under which
                                                                      # only chance keeps the metric from being perfect, and its words
    def bounds(column, ..., *, parameter...) -> tuple[float, float]   # optional: the lowest and the highest value there can be, which no
                                                                      # interval leaves; [0, 1] of `proportion` and `optimistic`, [-1, 1]
                                                                      # of `correlation` without it. It names only what it needs: any
                                                                      # column below, or `never_empty`: 1 where a prediction set has
                                                                      # an option at every threshold
    def chance(column, ..., *, parameter...) -> float   # optional: what an uncertainty without information reaches on these rows, on
                                                                      # average over its orders
    def least_error(column: Floats, ..., value: float, *, parameter...) -> float   # optional: the standard error that independent
                                                                      # rows would have were this the value; no smaller one is taken

- Positional arguments are named after the columns they read, `weights` last:

  | column | meaning |
  |---|---|
  | correct | 0..1: right option chosen, or the judge's rating of an open answer |
  | confidence | 0..1: largest softmax over the options; of an open answer what `inference.confidence` says |
  | answerable | 1 where the question can be answered |
  | uncertain | 1 where the question is meant to be uncertain: what the dataset's `uncertain:` says, else what cannot be answered |
  | fold | 0 or 1: which half of the dataset's groups the row is in, for metrics that choose something on other rows |
  | predicted, n_options | index of the likeliest option, number of options (multiple choice only) |
  | option_probabilities | (n, K), the one column of two dimensions: softmax over a question's own options, 0 beyond its last one |
  | right_option | index of the right option (multiple choice only) |
  | is_calibration | 1 where a conformal setting calibrates on the row, else 0; all 0 without a setting |
  | covered, set_size | of a row's prediction set, for one conformal setting and score |
  | says_uncertain | 1 where the model says so, of a dataset with `ask:`, which asks it whether a question is uncertain |
  | uncertainty | of one estimator, HIGHER = MORE UNCERTAIN, may be infinite |
  | clean_correct, clean_uncertainty | of the same sample, model and estimator on the clean input |
  | uncertainty_change | uncertainty - clean_uncertainty; lacking where that is not finite |
  | input_changed | 1 where a perturbed sample's prompt or pixels are not the clean ones, else 0 |
  | pred_is_idk, gt_is_idk | 1 where the answer declines, where declining is right (open answers only) |
  | rated_by_NAME | rating by the judge labelled NAME, whichever judge `correct` comes from (open answers only) |
  | marked_by_NAME/MARK | what that judge measured beside its rating, where it did (`Judgement.marks`; open answers only) |
  | rated_by_, marked_by_/MARK | the same of the judge whose ratings are scored: the data set's own first, else the spec's |
  | group_of_FIELD | a number for each value of a field or meta key of the samples: rows of one value stand or fall together |
  | code_of_FIELD | the same, of values that are kinds (a subtask) and not groups |

- Every column is float64, (n,) but for `option_probabilities`, without NaN: rows that lack one of the columns a metric reads are left
  out by the caller and counted as unscored.
- A metric that reads `group_of_FIELD` or `code_of_FIELD` is over the samples that have FIELD, and not asked of data sets that have it
  nowhere. `group_of_group` is the samples' own groups; one without is a group of its own. If one row of a `group_of_` is unscored
  all of that group are, so that no group passes for whole. Where two models are compared the groups of each are its own.
- `weights` stands for a (B, n) matrix of counts: row b says how often each row is drawn in resample b. It answers
  `weights @ column` -> (B,) and `weights @ columns` (n, m) -> (B, m); use these where the metric is made of sums, it is
  much cheaper than `np.asarray(weights)`. A plain (B, n) array works as well. The point estimate is weights of one.
  Which columns are summed must depend on the columns alone, never on the weights or on other sums.
- The result is (B,): NaN where the metric is undefined for that resample, never a stand-in such as 0.
- A value is shown as it is, to three decimals, in the terminal, the report and everywhere else: a share is a fraction of 1 and never
  times 100. What has another unit (options, points, a sum of two scores) says so in its docstring.
- A metric that reads a `clean_...` column or `uncertainty_change` pairs every row of a perturbed variant with the clean row
  of the same sample. It does not exist for the clean variant, nor where that was not run; a sample that a perturbation
  cannot be applied to has no perturbed row and is unscored. It is evaluated once more over the samples whose input is another than
  the clean one (slice `changed`), where some are not.
- A metric that reads `is_calibration` is over test rows unless its parameter `rows` is "all"; n is counted accordingly. With "all"
  it makes no difference which rows calibrate, and all settings have the value of the first.

How often a metric is evaluated follows from what it reads: per conformal setting and score and as the mean over the
scores (`set_size[ours/lac]`, `[ours/mean]`), over all rows and over the test rows of each setting (`accuracy`,
`accuracy[ours]`), per estimator (`auroc[perplexity]`), or once. One that
reads `confidence` and no sets is evaluated on every recalibrated confidence too (`ece[held_out/platt]`), where the spec has `calibrators`.
"""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights as GroupedWeights

Floats = NDArray[np.float64]
Weights: TypeAlias = NDArray[np.float64] | GroupedWeights


def lacking(column: Floats) -> NDArray[np.bool_]:
    """(n,): rows of a column that have no value."""
    missing: NDArray[np.bool_] = np.asarray(np.isnan(column).any(axis=tuple(range(1, column.ndim))))
    return missing


def ratio(part: Floats, whole: Floats) -> Floats:
    """`part / whole`, NaN where the whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    result: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)
    return result


def mean(column: Floats, chosen: Floats, weights: Weights) -> Floats:
    """Weighted mean of a column over the rows where `chosen` is 1."""
    sums = weights @ np.column_stack([column * chosen, chosen])
    return ratio(sums[:, 0], sums[:, 1])


def chosen_rows(is_calibration: Floats, rows: str) -> Floats:
    """Return 1 for each row that a metric is over: test rows, or `all`."""
    return np.ones_like(is_calibration) if rows == "all" else 1 - is_calibration


def whole_groups(right: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """For each row: 1 where all rows of its group are right, and how many rows its group has.

    >>> whole_groups(np.array([1.0, 1, 0]), np.array([7.0, 7, 3]))
    (array([1., 1., 0.]), array([2., 2., 1.]))
    """
    place = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(place)
    failed = np.bincount(place, right < 1)
    return (failed == 0)[place].astype(np.float64), size[place].astype(np.float64)


def one_class(uncertain: Floats) -> str:
    """Why nothing can be told apart: uncertain and clear questions are both needed, among those whose answers could be scored."""
    return "no scored question is uncertain" if not uncertain.any() else "every scored question is uncertain"


@cache
def torchmetric(name: str) -> type[Any]:
    """A metric plugin as a `torchmetrics.Metric` class, for training loops and distributed evaluation.

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
