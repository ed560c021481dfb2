"""The `infer` stage: one model answers every sample of some datasets under every variant, once.

First every prompt and every picture is digested and looked up in the sample-level store; then what is missing is
answered in batches under Lightning's `Trainer.predict`, each batch stored before the next begins; then the tables are
made from the store alone. So a killed run goes on where it was, and its tables are those of an undisturbed one: a
batch is filled in order with what is missing, and what a killed run had stored were whole batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from registry.plugins import get, load
from registry.sample import GENERATIONS, GREEDY
from runners.asking import Asker, Cell, missing, plan
from runners.code import engine_digest
from runners.inputs import Dataset, Variant, read_variants
from runners.models import COLUMNS, ModelContext, ModelError
from runners.predict import answer_all
from runners.records import write_table
from runners.splits import rule
from runners.stage import LOCAL, Stage, StageError
from runners.store import Store

STORE = LOCAL / "store"


def run(stage: Stage) -> None:
    """See `runners.models` for what a model is and `runners.inputs` for what it sees."""
    chosen = stage.params["model"]
    plugin = get("models", chosen["plugin"])
    needs = frozenset(stage.params["needs"])
    lacking = needs - set(plugin.declares.get("GIVES", ()))
    if lacking:
        raise StageError(
            f"model '{chosen['label']}': plugin {plugin.name} does not give {', '.join(sorted(lacking))}, which the spec needs"
        )
    datasets = [Dataset(name, Path(folder), rule(stage.params, name)) for name, folder in stage.inputs["datasets"].items()]
    folder = stage.inputs.get("model")
    context = ModelContext(chosen["label"], Path(folder) if folder else None, chosen.get("dtype"))
    try:
        model = load("models", plugin.name)(context, **chosen["args"])
        if hasattr(model, "lookup"):
            tables = [_look_up(model, dataset, stage) for dataset in datasets]
        else:
            tables = _answer(model, plugin.module, datasets, needs, stage)
    except ModelError as error:
        raise StageError(str(error)) from error
    for dataset, table in zip(datasets, tables, strict=True):
        target = Path(stage.outputs["generations"][dataset.name])
        made = stage.scratch / f"{dataset.name}.parquet"
        counts = {"samples": len(dataset), "rows": table.num_rows}
        write_table(made, table, GENERATIONS, {**stage.provenance, "model": chosen["label"], "dataset": dataset.name, **counts})
        stage.publish(made, target)


def _look_up(model: Any, dataset: Dataset, stage: Stage) -> pa.Table:
    table = model.lookup(dataset.name, dataset.table)
    known = len(set(table.column("sample_id").to_pylist()))
    stage.count(recorded=table.num_rows)
    if known < len(dataset):
        stage.count(**{"dropped (not recorded)": len(dataset) - known})
    return table


def _answer(model: Any, module: str, datasets: list[Dataset], needs: frozenset[str], stage: Stage) -> list[pa.Table]:
    variants = read_variants(stage.params["variants"])
    store = Store(STORE, model.digest, engine := engine_digest(module))
    asker = Asker(model, engine, datasets, variants, needs, stage)
    cells, broken = asker.survey()
    absent = missing(cells, store)
    stored = sum(store.find(c.key, c.needs) is not None for c in cells)
    stage.count(computed=0, stored=stored)
    repeats = len(cells) - stored - len(absent)
    if repeats:
        stage.count(**{"same as another": repeats})
    if absent:
        answer_all(asker, store, plan(absent, stage.settings.batch_size))
    if broken:
        more = f" and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise StageError(f"{len(broken)} samples cannot be asked; all others are answered and kept: " + "; ".join(broken[:10]) + more)
    return [_table(number, dataset, cells, variants, store, needs) for number, dataset in enumerate(datasets)]


def _table(number: int, dataset: Dataset, cells: list[Cell], variants: list[Variant], store: Store, needs: frozenset[str]) -> pa.Table:
    mine = [c for c in cells if c.dataset == number]
    rows = [store.find(c.key, c.needs) for c in mine]
    if None in rows:
        raise StageError(f"{dataset.name}: {rows.count(None)} answers are neither stored nor computed; please report this")
    values = store.take([r for r in rows if r is not None])
    columns = {
        "sample_id": [dataset.samples[c.row]["sample_id"] for c in mine],
        "variant": [variants[c.variant].name for c in mine],
        "draw": [GREEDY] * len(mine),
        "input_digest": [c.input_digest for c in mine],
    }
    for name in COLUMNS:
        columns[name] = values.column(name) if name in needs or name == "text" else pa.nulls(len(mine), GENERATIONS.field(name).type)
    return pa.table([pa.chunked_array(_chunks(columns[f.name], f.type), f.type) for f in GENERATIONS], schema=GENERATIONS)


def _chunks(values: Any, kind: pa.DataType) -> list[pa.Array]:
    if isinstance(values, pa.ChunkedArray):
        return values.chunks or [pa.array([], kind)]
    return [values if isinstance(values, pa.Array) else pa.array(values, kind)]
