"""The `infer` stage: one model answers every sample of some datasets under every variant, once. See `qualm.runners.inference.run`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry import BLIND
from qualm.registry.sample import GENERATIONS
from qualm.registry.system.dvc_objects import file_md5
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.data.aligned import check_slices
from qualm.runners.data.answers import Store
from qualm.runners.data.dataset import DatasetFolder, Variant, try_perturbations
from qualm.runners.data.rows import report_left_out
from qualm.runners.inference import inside
from qualm.runners.inference.open_inference import OPENER, open_inference
from qualm.runners.inference.requests import Asker, SampleVariant
from qualm.runners.inference.run import answer_tables
from qualm.runners.runtime.records import write_table
from qualm.runners.runtime.settings import is_first
from qualm.runners.runtime.stage import ANSWERS, Stage, StageError
from qualm.runners.scoring.calibration.conformal_parts import check_calibration

KIND = StageKind(
    title="Answers of {model} to {dataset}",
    reads=("datasets", "perturbed", "model", "beneath", "examples"),
    writes={"generations": "generations/{model}/{dataset}.parquet", "internals": "internals/{model}/{dataset}.parquet"},
    colour="#f58518",
    seeded=True,
    parallel=True,
    costly=True,
)


def run(stage: Stage) -> None:
    """Answer every sample of the stage's datasets with one model; publish a table for each.

    `qualm.runners.contracts.models` describes models, `qualm.runners.data.dataset` what they see.
    """
    label = stage.params["model"]["label"]
    check_slices(stage)
    check_calibration(stage)
    try:
        job = open_inference(stage)
        model, datasets = job.model, job.datasets
        try_perturbations(job.variants, datasets, stage.seed)
        if hasattr(model, "lookup"):
            _check_no_blind_variants(label, job.variants)
            tables = [_look_up(model, dataset, stage) for dataset in datasets]
        else:
            how = {"label": label, "share_with_processes": True, "write_more": partial(_write_internals, stage), "opener": OPENER}
            tables = answer_tables(model, job.module, datasets, job.variants, job.needs, stage, **how)
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


def _write_internals(stage: Stage, asker: Asker, cells: Sequence[SampleVariant], store: Store) -> None:
    """Write and publish tables of the model's internals, for datasets that need them."""
    for number, dataset in enumerate(asker.datasets):
        target = stage.outputs.get("internals", {}).get(dataset.name)
        if target is not None:
            file = stage.scratch / f"{dataset.name}.internals.parquet"
            facts = {"model": stage.params["model"]["label"], "dataset": dataset.name}
            inside.write_internals_table(asker, number, cells, store, file, {**stage.provenance, **facts})
            stage.publish(file, target)


def _check_no_blind_variants(label: str, variants: list[Variant]) -> None:
    """Raise StageError if recorded answers are asked for under a blind variant."""
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
