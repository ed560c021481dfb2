"""Answers of a model to every sample of some datasets under every variant, from the sample-level store or computed now.

First every prompt and every picture is digested and looked up in the store; then what is missing is answered in batches
under Lightning's `Trainer.predict`, each batch stored before the next begins; then the tables are made from the store
alone. So a killed run goes on where it was, and its tables are those of an undisturbed one: a batch is filled in order
with what is missing, and what a killed run had stored were whole batches. The `infer` stage asks so, and the `finetune`
stage where a recipe wants to know what its base model says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from registry.sample import GENERATIONS, GREEDY
from runners.asking import Asker, Cell, missing, plan
from runners.code import engine_digest
from runners.inputs import Dataset, Variant
from runners.models import ANSWER, PARTS, draw_of
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
    wanted = [key for cell in cells for key in cell.keys.values()]
    stored = sum(store.find(key) is not None for key in wanted)
    computing = sum(len(cell.keys) for cell in absent)
    stage.count(computed=0, stored=stored)
    repeats = len(wanted) - stored - computing
    if repeats:
        stage.count(**{"same as another": repeats})
    if absent:
        answer_all(asker, store, plan(absent, stage.settings.batch_size))
    if broken:
        more = f" and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise StageError(f"{len(broken)} samples cannot be asked; all others are answered and kept: " + "; ".join(broken[:10]) + more)
    return [_table(number, dataset, cells, variants, store, needs) for number, dataset in enumerate(datasets)]


def _table(number: int, dataset: Dataset, cells: list[Cell], variants: list[Variant], store: Store, needs: frozenset[str]) -> pa.Table:
    """GENERATIONS of one dataset: for every cell the greedy row, then its draws."""
    mine = [cell for cell in cells if cell.dataset == number]
    found = [store.find(key) for cell in mine for key in cell.keys.values()]
    if None in found:
        raise StageError(f"{dataset.name}: {found.count(None)} parts of answers are neither stored nor computed; please report this")
    stored = iter(store.take([row for row in found if row is not None]).to_pylist())
    rows = []
    for cell in mine:
        name, variant = dataset.samples[cell.row]["sample_id"], variants[cell.variant].name
        shared = {"sample_id": name, "variant": variant, "input_digest": cell.input_digest}
        greedy: dict[str, Any] = {**shared, "draw": GREEDY}
        rows.append(greedy)
        for part, values in zip(cell.keys, stored, strict=False):
            if draw_of(part):
                rows.append({**shared, "draw": draw_of(part), **_columns(PARTS[ANSWER], values, needs)})
            else:
                greedy |= _columns(PARTS[part], values, needs)
    return pa.Table.from_pylist(rows, schema=GENERATIONS)


_FIELD = {"text": "text", "token_logprobs": "logprobs", "token_entropies": "entropies", "option_logits": "numbers"}


def _columns(names: Sequence[str], part: Mapping[str, Any], needs: frozenset[str]) -> dict[str, Any]:
    """Columns of GENERATIONS from a stored part."""
    found = {}
    for name in names:
        if name in ("p_true", "p_yes"):
            found[name] = next(iter(part["numbers"]), None)
        else:
            found[name] = part[_FIELD.get(name, "logprobs")]
    return {name: value for name, value in found.items() if name in needs or name == "text"}
