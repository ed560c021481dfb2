"""Metrics as functions: `qualm.metrics.NAME(columns..., parameters)`, one number over all rows; `qualm.score` adds intervals.

NaN where it is undefined; rows that lack a column (None, NaN) are left out. `help(qualm.metrics.NAME)` says what it reads and which
direction is better, `dir(qualm.metrics)` lists all.

Example:
    >>> import qualm
    >>> qualm.metrics.auroc(uncertainty=[0.9, 0.2, 0.4, 0.1], correct=[0, 1, 0, 1])
    1.0
    >>> round(qualm.metrics.ece(confidence=[0.9, 0.8, 0.6], correct=[1, 1, 0], bins=10), 3)
    0.3
"""

from typing import Any

from qualm.compiler.results.array_functions import function_of, metric
from qualm.registry.plugins import registry


def __getattr__(name: str) -> Any:
    return function_of("metrics", name, metric)


def __dir__() -> list[str]:
    return registry.names("metrics")
