"""Metrics of a stage: loaded, and held to what they may read."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

from qualm.registry.plugins import columns, registry
from qualm.registry.plugins.column_names import CODE_OF, GROUP_OF, MARKED_BY, RATED_BY
from qualm.registry.plugins.declarations import for_arguments
from qualm.runners.data.aligned import Floats
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.cells import CHOICE_ONLY, INPUT_CHANGED, OPEN_ONLY, PAIRED
from qualm.runners.scoring.limits import BOUNDS, UNBOUNDED, Bounds

UNDECLARED = "its plugin declares no `interval`, so no method is known to hold for it"
PREFIXES = (RATED_BY, MARKED_BY, GROUP_OF, CODE_OF)


@dataclass(frozen=True)
class Metric:
    """A metric of the spec: its plugin, columns, arguments and optional functions."""

    label: str
    plugin: registry.Plugin
    reads: tuple[str, ...]
    """Its columns, `weights` left out."""
    function: Callable[..., Floats]
    args: dict[str, Any]
    over: str | None = None
    """The metric is over rows where this column is 1, or as large as its parameter `right_from`."""
    why: Callable[..., str] | None = None
    """Says why there is no value over some rows."""
    interval: str = "t"
    """By which method of `qualm.runners.scoring.limits`."""
    classes: Callable[..., Floats] | None = None
    """Tells the rows of the one class from those of the other, where the metric sets two against each other."""
    types: Callable[..., Floats] | None = None
    """Gives the type of each row, where the metric averages over types."""
    enters: Callable[..., Floats] | None = None
    """Gives 1 for rows in the denominator, where a metric of ranks has not all in it."""
    own_interval: Callable[..., tuple[float, float] | str] | None = None
    why_no_interval: str = ""
    """Reason for the method `none`."""
    minimum_standard_error: Callable[..., float] | None = None
    """The smallest standard error there can be."""
    null_test: Callable[..., tuple[float, str]] | None = None
    """A test of the hypothesis under which the metric is perfect but for chance, and that in words."""
    bounds: Callable[..., Bounds] | None = None
    """The lowest and the highest value that there can be, where its method does not say."""
    chance: Callable[..., float] | None = None
    """Function that returns the value of an uninformative uncertainty."""
    rating: str = ""
    """The column of ratings with which the metric never falls; empty where none is declared."""

    @property
    def of_test_rows(self) -> bool:
        return "is_calibration" in self.reads and self.args.get("rows") != "all"

    @property
    def is_row_by_row(self) -> bool:
        """Return whether its plugin declares `row_by_row`: each summed term depends on one row."""
        return bool(self.plugin.declares.get("row_by_row", False))


def metric_of(label: str, metrics: Iterable[Metric]) -> Metric:
    """Return the metric of a label with or without brackets; KeyError if it is of none."""
    for metric in metrics:
        if label == metric.label or label.startswith(f"{metric.label}["):
            return metric
    raise KeyError(label)


def read_metrics(refs: Sequence[dict[str, Any]]) -> list[Metric]:
    """Load a stage's metrics with their plugins; StageError if one reads unknown columns."""
    readable = {
        "correct",
        "confidence",
        "answerable",
        "uncertain",
        "fold",
        "is_calibration",
        "uncertainty",
        "says_uncertain",
        INPUT_CHANGED,
    }
    readable |= CHOICE_ONLY | OPEN_ONLY | PAIRED
    metrics = []
    for ref in refs:
        plugin = for_arguments(registry.get("metrics", ref["plugin"]), ref["args"])
        reads = tuple(c for c in columns.columns(plugin, ref["args"]).values() if c is not None)
        if not reads or reads[-1] != "weights" or not {c for c in reads[:-1] if not c.startswith(PREFIXES)} <= readable:
            raise StageError(
                f"{plugin.path}: {plugin.name} reads {', '.join(reads) or 'nothing'}; expected columns of "
                f"{', '.join(sorted(readable))}, {RATED_BY}JUDGE, {MARKED_BY}JUDGE/MARK, {GROUP_OF}FIELD, {CODE_OF}FIELD, then weights"
            )
        function = registry.load("metrics", ref["plugin"])
        over = _over_column(plugin.declares.get("over"), ref["args"])
        names = ("why_undefined", "classes", "types", "enters", "interval", "minimum_standard_error", "null_test", "bounds", "chance")
        module = sys.modules[function.__module__]
        why, classes, types, enters, interval, least, null, bounds, chance = (getattr(module, name, None) for name in names)
        if "contrasts" in plugin.declares:
            classes, types = (of if plugin.declares["contrasts"] == name else None for of, name in ((classes, "classes"), (types, "types")))
        method = plugin.declares.get("interval", "none")
        none = plugin.declares.get("why_no_interval", "" if "interval" in plugin.declares else UNDECLARED)
        rating = reads[plugin.reads.index(plugin.declares["increases_with"])] if "increases_with" in plugin.declares else ""
        own = (why, method, classes, types, enters, interval, none, least, null, bounds, chance, rating)
        metrics.append(Metric(ref["label"], plugin, reads[:-1], function, ref["args"], over, *own))
    return metrics


def bounds_of(metric: Metric, column: Callable[[str], Floats | None]) -> Bounds:
    """Return the (lowest, highest) possible value of a metric; infinite where unknown.

    `column` gives a column of the cell by its name, None of one that it does not have; no bounds are known then.
    """
    if metric.bounds is None:
        return BOUNDS.get(metric.interval, UNBOUNDED)
    arguments = _arguments_of(metric, metric.bounds, column)
    return UNBOUNDED if arguments is None else metric.bounds(**arguments)


def chance_of(metric: Metric, column: Callable[[str], Floats | None]) -> float:
    """Return the metric's value for an uninformative uncertainty; NaN if the metric has none."""
    arguments = None if metric.chance is None else _arguments_of(metric, metric.chance, column)
    return math.nan if metric.chance is None or arguments is None else float(metric.chance(**arguments))


def _arguments_of(metric: Metric, function: Callable[..., Any], column: Callable[[str], Floats | None]) -> dict[str, Any] | None:
    """Return {name: argument} of a metric's `bounds` or `chance`; None if a column is missing."""
    reads, arguments = columns.columns(metric.plugin, metric.args), dict[str, Any]()
    for name, is_parameter in _argument_kinds(function):
        if not is_parameter:
            arguments[name] = column(reads.get(name) or name)
        elif name in metric.args:
            arguments[name] = metric.args[name]
    return None if any(value is None for value in arguments.values()) else arguments


@cache
def _argument_kinds(function: Callable[..., Any]) -> list[tuple[str, bool]]:
    """Return (name, whether it is a metric parameter) per argument of a function."""
    return [(name, argument.kind is argument.KEYWORD_ONLY) for name, argument in signature(function).parameters.items()]


def _over_column(declared: Any, args: Mapping[str, Any]) -> str | None:
    """Return the column of a plugin's `over`, which a flag in `args` may choose; None if none."""
    if not isinstance(declared, Mapping):
        return None if declared is None else str(declared)
    return next((column for flag, column in declared.items() if args[flag]), None)
