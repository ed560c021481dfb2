"""Plugins as plain functions: `qualm.estimators`, `qualm.metrics`, `qualm.conformal`.

A plugin's function takes its columns by position or by name, and its parameters by name, checked like those of a spec. Plugins of a
project are included if the working directory lies in one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from qualm.compiler.results.array_columns import ArgumentError, Floats, arrow, check_values, common_length, floats, option_floats
from qualm.compiler.spec import validate
from qualm.compiler.spec.errors import Position, Problem, nearest
from qualm.compiler.spec.plugin_ref import Ref, located
from qualm.compiler.spec.yaml_positions import Document
from qualm.registry.plugins import foreign_names, registry
from qualm.registry.plugins.column_names import CONTEXT, QUESTION, UNIFORM
from qualm.registry.plugins.columns import columns, drawn_from, variants_of
from qualm.registry.plugins.internals import is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin, PluginError
from qualm.registry.sample import GENERATIONS

Function = Callable[..., Any]
WEIGHTS = "weights"
ASSUMED_VALUES = {"is_calibration": 0.0}
"""Columns that a metric reads and that a call may leave out, and what they are then: no row calibrates."""


def function_of(kind: str, name: str, make: Callable[[Plugin], Function]) -> Function:
    """Return make(plugin) for a plugin's name; AttributeError if there is none."""
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return make(foreign_names.get(kind, name))
    except PluginError as error:
        raise AttributeError(str(error)) from None


def reference(kind: str, item: str | Mapping[str, Any]) -> Ref:
    """Return the `Ref` of "ece" or {"ece": {"bins": 10}}, with all arguments.

    Raises:
        ArgumentError: there is no such plugin, or a parameter is wrong.
    """
    named = isinstance(item, Mapping)
    if named and len(item) != 1:
        raise ArgumentError(f"expected one plugin of {kind}, as a name or {{name: {{parameters}}}}, got {len(item)} names")
    name, parameters = next(iter(item.items())) if isinstance(item, Mapping) else (item, {})
    try:
        plugin = foreign_names.get(kind, str(name))
    except PluginError as error:
        raise ArgumentError(str(error)) from None
    return checked(plugin, parameters or {})


def checked(plugin: Plugin, parameters: Mapping[str, Any]) -> Ref:
    """Return the `Ref` of a plugin with validated arguments; else ArgumentError."""
    problems: list[Problem] = []
    raw = {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}
    document = Document(raw, {(): Position(plugin.name)}, {}, {})
    points = validate.combinations(plugin.parameters, raw, document, (), problems, plugin.name)
    if not problems and len(points) != 1:
        raise ArgumentError(f"{plugin.name}: expected one value for each parameter, got lists of {len(points):,} combinations")
    if problems:
        raise ArgumentError(f"{plugin.name}: {_in_words(problems)}")
    args = points[0][1]
    inputs = {name: value for name, value in args.items() if name in raw}
    return Ref(validate.label(plugin.name, inputs), plugin, located(plugin, args))


def check_settings(model: type[BaseModel], **values: Any) -> None:
    """Raise ArgumentError if the `values` are invalid for a model of the spec language."""
    problems: list[Problem] = []
    validate.model(model, Document(values, {(): Position("")}, {}, {}), problems)
    if problems:
        raise ArgumentError(_in_words(problems))


def _in_words(problems: Iterable[Problem]) -> str:
    return "; ".join(f"{p.path}: " * bool(p.path) + p.message + f" ({p.hint})" * bool(p.hint) for p in problems)


def bind_arguments(
    plugin: Plugin, positional: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[dict[str, Any], Ref, dict[str, str | None]]:
    """Return ({positional parameter: value}, the plugin's Ref, {parameter: column}).

    Returns:
        The value of each positional parameter; the plugin with its parameters; and the column that each positional parameter reads with
        these, under whose name it may be passed too.

    Raises:
        ArgumentError: a column is passed twice or unknown, or a parameter is wrong.
    """
    own = [name for name in plugin.reads if name not in (CONTEXT, WEIGHTS)]
    names = {p.name for p in plugin.parameters}
    ref = checked(plugin, {name: value for name, value in named.items() if name in names})
    read = {name: column for name, column in columns(plugin, ref.args).items() if name in own}
    if len(positional) > len(own):
        raise ArgumentError(f"{plugin.name} reads {', '.join(own)}, and takes parameters by name; got {len(positional)} columns")
    inputs = dict(zip(own, positional, strict=False))
    by_column = {column: name for name, column in read.items() if column is not None}
    for name, value in ((name, value) for name, value in named.items() if name not in names):
        place = name if name in own else by_column.get(name)
        if place is None:
            choices = [*own, *by_column, *sorted(names)]
            raise ArgumentError(f"{plugin.name} has neither a column nor a parameter '{name}'; {nearest(name, dict.fromkeys(choices))}")
        if place in inputs:
            raise ArgumentError(f"{plugin.name}: got {name} twice, by position and by name; give it once")
        inputs[place] = value
    return inputs, ref, read


def estimator(plugin: Plugin) -> Function:
    """Return a function from columns (one value a row) to uncertainties (n,).

    It gives (n,) uncertainties, HIGHER = MORE UNCERTAIN, NaN where undefined.
    """

    def function(*positional: Any, **named: Any) -> Floats:
        from qualm.runners.contracts.estimators import EstimatorContext
        from qualm.runners.scoring.apply_estimator import LabelledEstimator, estimator_values

        inputs, ref, read = bind_arguments(plugin, positional, named)
        _complete(plugin, [name for name, column in read.items() if column is not None and name not in inputs])
        taken = {column: arrow(name, inputs[name], _kind(column)) for name, column in read.items() if column is not None}
        one = LabelledEstimator(ref.label, plugin, read, ref.args)
        values = estimator_values(one, taken, common_length(taken), EstimatorContext())
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)

    return _named(function, plugin, "numpy.ndarray")


def metric(plugin: Plugin) -> Function:
    """Return a function from columns (one value a row) to the metric, one float.

    It gives one number over all rows, NaN if undefined. Rows that lack a column are left out.
    """

    def function(*positional: Any, **named: Any) -> float:
        from qualm.runners.contracts.metrics import missing_rows

        inputs, ref, read = bind_arguments(plugin, positional, named)
        _complete(plugin, [column or name for name, column in read.items() if name not in inputs and column not in ASSUMED_VALUES])
        taken = {name: floats(read[name] or name, values) for name, values in inputs.items()}
        for name, values in taken.items():
            check_values(read[name] or name, values)
        n = common_length({read[name] or name: values for name, values in taken.items()})
        arrays = [taken.get(name, np.full(n, ASSUMED_VALUES.get(column or "", np.nan))) for name, column in read.items()]
        scored = ~np.any([missing_rows(array) for array in arrays], axis=0)
        rows = [array[scored] for array in arrays]
        return float(registry.load("metrics", plugin.name)(*rows, np.ones((1, int(scored.sum()))), **ref.args)[0])

    return _named(function, plugin, "float")


def score(plugin: Plugin) -> Function:
    """Return a function from probabilities (n, K) to nonconformity scores (n, K).

    It gives (n, K) scores of options, HIGHER = FITS WORSE, NaN beyond a question's last option.
    """

    def function(*positional: Any, **named: Any) -> Floats:
        inputs, ref, _ = bind_arguments(plugin, positional, named)
        _complete(plugin, [name for name in plugin.reads if name not in inputs])
        taken = [(floats if name == UNIFORM else option_floats)(name, inputs[name]) for name in plugin.reads]
        common_length(dict(zip(plugin.reads, taken, strict=True)))
        return np.asarray(registry.load("conformal", plugin.name)(*taken, **ref.args), dtype=np.float64)

    return _named(function, plugin, "numpy.ndarray")


def _complete(plugin: Plugin, lacking: list[str]) -> None:
    if lacking:
        raise ArgumentError(f"{plugin.name} reads {', '.join(lacking)}, which the call does not have; pass a column for each")


def _named(function: Function, plugin: Plugin, gives: str) -> Function:
    """Set a function's name, docstring and signature, with return type `gives`; return it."""
    both = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [
        inspect.Parameter(name, both, **({"default": ASSUMED_VALUES[name]} if name in ASSUMED_VALUES else {}))
        for name in plugin.reads
        if name not in (CONTEXT, WEIGHTS)
    ]
    own.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    more = [
        inspect.Parameter(
            p.name, inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if p.default is registry.REQUIRED else p.default
        )
        for p in plugin.parameters
    ]
    function.__name__ = function.__qualname__ = plugin.name
    function.__module__ = f"qualm.{plugin.kind}"
    function.__doc__ = plugin.doc
    function.__signature__ = inspect.Signature([*own, *more], return_annotation=gives)  # type: ignore[attr-defined]
    return function


def _kind(column: str) -> pa.DataType:
    """Return the Arrow type of a column that estimators read, floats as float64."""
    if is_internal(column):
        numbers = pa.list_(pa.float64())
        return pa.list_(numbers) if parse_internal(column).drawn else numbers
    if column == QUESTION:
        return pa.string()
    own = _double(GENERATIONS.field(drawn_from(column) or column).type)
    drawn = bool(drawn_from(column)) or bool(variants_of(column))
    return pa.list_(own) if drawn else own


def _double(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_double(kind.value_type))
    return pa.float64() if pa.types.is_floating(kind) else kind
