"""Columns of metrics, functions that several metrics use, and metrics as torchmetrics classes."""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qualm.runners.contracts.grouped_weights import Weights as GroupedWeights

Floats = NDArray[np.float64]
Weights: TypeAlias = NDArray[np.float64] | GroupedWeights


def missing_rows(column: Floats) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows that hold a NaN in a column, (n,) or (n, m)."""
    missing: NDArray[np.bool_] = np.asarray(np.isnan(column).any(axis=tuple(range(1, column.ndim))))
    return missing


def ratio(part: Floats, whole: Floats) -> Floats:
    """Divide two arrays elementwise, with NaN where the denominator `whole` is 0."""
    if part.shape != whole.shape:
        part, whole = np.broadcast_arrays(part, whole)
    result: Floats = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)
    return result


def mean(column: Floats, chosen: Floats, weights: Weights) -> Floats:
    """Return the weighted mean (B,) of a column (n,) where `chosen` is 1; NaN if nowhere."""
    sums = weights @ np.column_stack([column * chosen, chosen])
    return ratio(sums[:, 0], sums[:, 1])


def chosen_rows(is_calibration: Floats, rows: str) -> Floats:
    """Return (n,) 1.0 for rows that a metric covers: test rows, or all for "all"; else 0.0."""
    return np.ones_like(is_calibration) if rows == "all" else 1 - is_calibration


def whole_groups(right: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Return per row 1.0 if its whole group is right, else 0.0, and its group's size.

    >>> whole_groups(np.array([1.0, 1, 0]), np.array([7.0, 7, 3]))
    (array([1., 1., 0.]), array([2., 2., 1.]))
    """
    place = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(place)
    failed = np.bincount(place, right < 1)
    return (failed == 0)[place].astype(np.float64), size[place].astype(np.float64)


def explain_one_class(uncertain: Floats) -> str:
    """Return why AUROC is undefined: no scored question is uncertain, or every one is."""
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

    from qualm.registry.plugins import registry

    plugin, function = registry.get("metrics", name), registry.load("metrics", name)
    columns = [c for c in plugin.reads if c != "weights"]

    class PluginMetric(Metric):
        higher_is_better = plugin.declares.get("higher_is_better")
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
