"""Stage `estimate`: one uncertainty per greedy answer and estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry import plugins
from registry.sample import GENERATIONS, UNCERTAINTIES
from runners.frames import flat, greedy_by_variant
from runners.records import write_table
from runners.stage import Stage, StageError


def run(stage: Stage) -> None:
    """Read every generations file, apply every estimator, write one table."""
    estimators = [
        (ref, plugins.get("estimators", ref["plugin"]), plugins.load("estimators", ref["plugin"])) for ref in stage.params["estimators"]
    ]
    for _, plugin, _ in estimators:
        unknown = [c for c in plugin.reads if c not in GENERATIONS.names]
        if unknown:
            raise StageError(f"{plugin.path}: reads {', '.join(unknown)}; expected columns of GENERATIONS: {', '.join(GENERATIONS.names)}")
    needed = list(dict.fromkeys(c for _, plugin, _ in estimators for c in plugin.reads))
    parts = []
    for model, files in sorted(stage.inputs["generations"].items()):
        for dataset, path in sorted(files.items()):
            for variant, table in greedy_by_variant(path, needed).items():
                for ref, plugin, function in estimators:
                    values = _values(table, plugin.reads, function, ref["args"], f"{path}: {ref['label']}")
                    stage.count(uncertainties=len(values), undefined=values.null_count)
                    parts.append(_rows(model, dataset, variant, ref["label"], table["sample_id"], values))
    made = stage.scratch / "uncertainties.parquet"
    whole = pa.concat_tables(parts) if parts else UNCERTAINTIES.empty_table()
    write_table(made, whole, UNCERTAINTIES, stage.provenance)
    stage.publish(made, stage.outputs["uncertainties"])


def _values(table: pa.Table, reads: tuple[str, ...], function: Any, args: dict[str, Any], where: str) -> pa.Array:
    """The estimator's value of every row, null where a column it reads is null or the value is undefined."""
    given = np.ones(table.num_rows, dtype=bool)
    for name in reads:
        given &= pc.is_valid(table[name]).to_numpy()
    values = np.full(table.num_rows, np.nan)
    if given.any():
        chosen = table.filter(pa.array(given))
        result = np.asarray(function(*(column(chosen[name]) for name in reads), **args), dtype=np.float64)
        if result.shape != (chosen.num_rows,):
            raise StageError(f"{where}: expected one number for each of {chosen.num_rows} rows, got shape {result.shape}")
        values[given] = result
    return pa.array(values, mask=np.isnan(values))


def column(values: pa.ChunkedArray) -> Any:
    """A column as a plugin gets it: list of arrays, list of strings, or an array."""
    if pa.types.is_list(values.type):
        numbers, lengths = flat(values)
        return np.split(numbers, np.cumsum(lengths)[:-1]) if len(lengths) else []
    if pa.types.is_string(values.type):
        return values.to_pylist()
    return values.to_numpy().astype(np.float64)


def _rows(model: str, dataset: str, variant: str, label: str, ids: pa.ChunkedArray, values: pa.Array) -> pa.Table:
    n = len(ids)
    same = {"model": model, "dataset": dataset, "variant": variant, "estimator": label}
    columns = {name: pa.array([text] * n, pa.string()) for name, text in same.items()} | {"sample_id": ids, "value": values}
    return pa.table({name: columns[name] for name in UNCERTAINTIES.names}, schema=UNCERTAINTIES)
