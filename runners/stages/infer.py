"""The `infer` stage: one model answers every sample of some datasets under every variant, once. See `qualm.runners.inference.run`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry import BLIND
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.internals import given_by
from qualm.registry.plugins.registry import get, gives, load
from qualm.registry.sample import GENERATIONS
from qualm.registry.system.dvc_objects import file_md5
from qualm.runners.contracts.models import ModelContext, ModelError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import check_slices
from qualm.runners.data.dataset import DatasetFolder, Variant, read_variants, rehearse
from qualm.runners.data.rows import report_left_out
from qualm.runners.data.splits import rule
from qualm.runners.inference import inside
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.inference.run import answer_tables
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import is_first
from qualm.runners.runtime.stage import ANSWERS, Stage, StageError
from qualm.runners.scoring.calibration.conformal_parts import check_calibration
from qualm.runners.store.answers import Store

KIND = StageKind(
    title="Answers of {model} to {dataset}",
    reads=("datasets", "perturbed", "model", "beneath", "examples"),
    writes={"generations": "generations/{model}/{dataset}.parquet", "internals": "internals/{model}/{dataset}.parquet"},
    colour="#f58518",
    seeded=True,
    parallel=True,
    costly=True,
)


@dataclass(frozen=True)
class Question:
    """Model, datasets, variants and columns of a stage."""

    model: Any
    """See `qualm.runners.contracts.models`."""
    module: str
    """Dotted name of its plugin."""
    datasets: list[DatasetFolder]
    variants: list[Variant]
    needs: frozenset[str]
    """Which columns of GENERATIONS, and `draws`."""


def run(stage: Stage) -> None:
    """Answer every sample of the stage's datasets with one model; publish a table for each.

    `qualm.runners.contracts.models` describes models, `qualm.runners.data.dataset` what they see.
    """
    label = stage.params["model"]["label"]
    check_slices(stage)
    check_calibration(stage)
    try:
        question = opened(stage)
        model, datasets = question.model, question.datasets
        rehearse(question.variants, datasets, stage.seed)
        if hasattr(model, "lookup"):
            _check_looks(label, question.variants)
            tables = [_look_up(model, dataset, stage) for dataset in datasets]
        else:
            how = {"label": label, "together": True, "also": partial(_write_inside, stage), "opener": f"{__name__}:opened"}
            tables = answer_tables(model, question.module, datasets, question.variants, question.needs, stage, **how)
    except ModelError as error:
        raise StageError(str(error)) from error
    if not is_first():  # another process of this stage: the first one writes
        return
    for dataset, table in zip(datasets, tables, strict=True):
        target = Path(stage.outputs["generations"][dataset.name])
        file = stage.scratch / f"{dataset.name}.parquet"
        counts = {"samples": len(dataset), "rows": table.num_rows}
        facts = {"model": label, "dataset": dataset.name, **counts, **getattr(model, "facts", {})}
        write_table(file, table, GENERATIONS, {**stage.provenance, **facts})
        if ANSWERS in stage.facts:
            stage.facts[ANSWERS].setdefault("tables", {})[target.as_posix()] = file_md5(file)
        stage.publish(file, target)


def _write_inside(stage: Stage, asker: Asker, cells: Sequence[SampleVariant], store: Store) -> None:
    """Write the tables of the model's internals, for datasets that need them."""
    for number, dataset in enumerate(asker.datasets):
        target = stage.outputs.get("internals", {}).get(dataset.name)
        if target is not None:
            file = stage.scratch / f"{dataset.name}.internals.parquet"
            facts = {"model": stage.params["model"]["label"], "dataset": dataset.name}
            inside.write(asker, number, cells, store, file, {**stage.provenance, **facts})
            stage.publish(file, target)


def opened(stage: Stage) -> Question:
    """Return the model without its weights, and the datasets under their variants.

    Raises:
        StageError: the model does not give what is needed, or a dataset cannot be read.
        ModelError: the model cannot be had.
    """
    chosen = stage.params["model"]
    plugin = get("models", chosen["plugin"])
    needs = frozenset(stage.params["needs"])
    lacking = {given_by(word) for word in needs} - gives(plugin, chosen["args"])
    if lacking:
        raise StageError(
            f"model '{chosen['label']}': plugin {plugin.name} does not give {', '.join(sorted(lacking))}, which the spec needs; "
            "`leave_out:` what reads it"
        )
    datasets = [DatasetFolder(name, Path(folder), rule(stage.params, name)) for name, folder in stage.inputs["datasets"].items()]
    if "option_logits" not in gives(plugin, chosen["args"]) and not stage.params.get(IN_WORDS):
        _open_only(chosen["label"], plugin.name, datasets)
    folder = stage.inputs.get("model")
    context = ModelContext(chosen["label"], Path(folder) if folder else None, chosen.get("dtype"), stage.settings)
    variants = read_variants(stage.params["variants"], stage.inputs.get("perturbed"))
    return Question(load("models", plugin.name)(context, **chosen["args"]), plugin.module, datasets, variants, needs)


def _open_only(label: str, plugin: str, datasets: list[DatasetFolder]) -> None:
    """Refuse multiple-choice questions, which are scored by their options' logits."""
    for dataset in datasets:
        chosen = next((s["sample_id"] for s in dataset.samples if s["choices"]), None)
        if chosen is not None:
            raise StageError(
                f"model '{label}': {plugin} with these parameters gives no option_logits, by which multiple-choice questions are scored; "
                f"dataset {dataset.name} has some, such as sample '{chosen}' (`qualm ls models {plugin}` says what it takes; "
                "`judges: [option_match]` reads answers in words)"
            )


def _check_looks(label: str, variants: list[Variant]) -> None:
    """Return answers on record were given to the samples' own images."""
    for variant in variants:
        if variant.name in BLIND.values():
            raise StageError(
                f"model '{label}': its answers are on record, so it cannot be asked as '{variant.name}'; take it out of the spec's `blind:`"
            )


def _look_up(model: Any, dataset: DatasetFolder, stage: Stage) -> pa.Table:
    table = model.lookup(dataset.name, dataset.table)
    answered = pc.count_distinct(table.column("sample_id")).as_py()
    stage.count(recorded=table.num_rows)
    if answered < len(dataset):
        stage.count(**{"dropped (not recorded)": len(dataset) - answered})
    report_left_out(dataset.name, getattr(model, "left_out", ()), stage)
    return table
