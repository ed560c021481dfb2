"""Answers of a model to every sample of some datasets under every variant, from the sample-level store or computed now.

First every prompt and every picture is digested and looked up in the store; then what is missing is answered in batches
under Lightning's `Trainer.predict`, each batch stored before the next begins; then the tables are made from the store
alone. So a killed run goes on where it was, and its tables are those of an undisturbed one: a batch is filled in order
with what is missing, and what a killed run had stored were whole batches. The `infer` stage asks so, and the `finetune`
stage where a recipe wants to know what its base model says.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from registry.sample import GENERATIONS, GREEDY
from runners.asking import Asker, Cell, missing, plan
from runners.code import engine_digest
from runners.inputs import Dataset, Variant
from runners.models import COLUMNS
from runners.predict import answer_all
from runners.stage import LOCAL, Stage, StageError
from runners.store import Store

STORE = LOCAL / "store"


def answer_tables(
    model: Any, module: str, datasets: list[Dataset], variants: list[Variant], needs: frozenset[str], stage: Stage
) -> list[pa.Table]:
    """GENERATIONS of each dataset, rows in its order.

    Args:
        model: a `runners.models.Model`.
        module: dotted name of its plugin, whose code is part of every key.
        datasets: what is asked.
        variants: under which perturbations.
        needs: which columns.
        stage: `max_new_tokens`, seed, settings; its counters are raised.

    Raises:
        StageError: samples that cannot be asked; all others are answered and kept.
    """
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
