"""Apply an estimator to columns of answers: one uncertainty per greedy answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry.plugins import registry
from qualm.registry.plugins.column_names import CONTEXT, QUESTION
from qualm.registry.plugins.columns import columns, drawn_from
from qualm.registry.plugins.internals import Internal, is_internal, parse_internal
from qualm.registry.plugins.registry import Plugin, PluginError
from qualm.registry.sample import GENERATIONS
from qualm.runners.contracts.estimators import EstimatorContext
from qualm.runners.contracts.nli import NliError
from qualm.runners.contracts.returned import call_plugin, check_array
from qualm.runners.data.aligned import plugin_columns
from qualm.runners.data.sampled_answers import Block
from qualm.runners.runtime.precision import stored_value
from qualm.runners.runtime.stage import StageError


@dataclass(frozen=True)
class LabelledEstimator:
    """An estimator of the spec: its plugin, its arguments, and the columns that it reads."""

    label: str
    plugin: Plugin
    columns: Mapping[str, str | None]
    """Positional parameter -> column that it reads."""
    args: dict[str, Any]

    @property
    def reads(self) -> list[str]:
        """Return the columns that are read whole, without model internals."""
        return [column for column in self.columns.values() if column is not None and not is_internal(column)]

    @property
    def internals(self) -> list[Internal]:
        """Return the model internals among its columns, which are read a few answers at a time."""
        return [parse_internal(column) for column in self.columns.values() if column is not None and is_internal(column)]


def labelled_estimator(ref: Mapping[str, Any]) -> LabelledEstimator:
    """Return the estimator of an `estimators` entry; StageError if it reads unknown columns."""
    plugin = registry.get("estimators", ref["plugin"])
    try:
        read = columns(plugin, ref["args"])
    except PluginError as error:
        raise StageError(str(error)) from error
    readable = [*GENERATIONS.names, QUESTION]
    unknown = [c for c in read.values() if c is not None and c not in readable and not drawn_from(c) and not is_internal(c)]
    if unknown:
        raise StageError(f"{plugin.path}: reads {', '.join(unknown)}; expected columns of GENERATIONS or of draws: {', '.join(readable)}")
    return LabelledEstimator(ref["label"], plugin, read, ref["args"])


def estimator_values(
    estimator: LabelledEstimator, columns: Mapping[str, pa.ChunkedArray], n_rows: int, context: EstimatorContext
) -> pa.Array:
    """Return an estimator's values (n_rows,); null if undefined or if a column is null."""
    readable, handed = plugin_columns(columns, np.ones(n_rows, dtype=bool))
    values = np.full(n_rows, np.nan)
    if readable.any():
        function = registry.load("estimators", estimator.plugin.name)
        first = [context] if estimator.plugin.reads[0] == CONTEXT else []
        arguments = [handed[c] if c is not None else None for c in estimator.columns.values()]
        try:
            where = f"estimator '{estimator.label}'"
            returned = call_plugin(estimator.plugin, where, lambda: function(*first, *arguments, **estimator.args), NliError)
            result = check_array(
                estimator.plugin, f"{where}, one number for each of {readable.sum():,} rows", returned, (int(readable.sum()),)
            )
        except NliError as error:
            raise StageError(f"{estimator.label}: {error}") from error
        # The same draws in another order, or on another machine, differ in the last bits, and what is a tie (every draw the same,
        # clean and perturbed) would pass for more uncertainty or less.
        values[readable] = [stored_value(value) for value in result.tolist()]
    return pa.array(values, mask=np.isnan(values))


def values_from_internals(estimator: LabelledEstimator, block: Block, context: EstimatorContext) -> pa.Array | None:
    """Return a block's values (n,) of an estimator of internals; None if no answer has them."""
    values = np.full(len(block.ids), np.nan)
    readable = False
    for rows, handed in block.read_internals(estimator.internals):
        handed |= {name: block.columns[name].take(pa.array(rows)) for name in estimator.reads}
        readable |= all(column.null_count < len(rows) for column in handed.values())
        values[rows] = estimator_values(estimator, handed, len(rows), context).to_numpy(zero_copy_only=False)
    return pa.array(values, mask=np.isnan(values)) if readable or not len(values) else None
