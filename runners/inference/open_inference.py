"""Inputs of an inference stage: the model without its weights, its datasets and their variants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.internals import given_by
from qualm.registry.plugins.registry import get, gives, load
from qualm.runners.contracts.models import ModelContext
from qualm.runners.data.dataset import DatasetFolder, Variant, read_variants
from qualm.runners.data.splits import split_rule
from qualm.runners.runtime.stage import Stage, StageError

OPENER = f"{__name__}:open_inference"
"""Address by which a worker imports `open_inference`."""


@dataclass(frozen=True)
class InferenceJob:
    """Model, datasets, variants and needed columns of an inference stage."""

    model: Any
    """See `qualm.runners.contracts.models`."""
    module: str
    """Dotted name of its plugin."""
    datasets: list[DatasetFolder]
    variants: list[Variant]
    needs: frozenset[str]
    """Which columns of GENERATIONS, and `draws`."""


def open_inference(stage: Stage) -> InferenceJob:
    """Return an inference stage's model (weights not loaded), datasets, variants and needs.

    Raises:
        StageError: the model does not give what is needed, or a dataset cannot be read.
        ModelError: the model cannot be opened.
    """
    chosen = stage.params["model"]
    plugin = get("models", chosen["plugin"])
    needs, given = frozenset(stage.params["needs"]), gives(plugin, chosen["args"])
    lacking = {given_by(word) for word in needs} - given
    if lacking:
        raise StageError(
            f"model '{chosen['label']}': plugin {plugin.name} does not give {', '.join(sorted(lacking))}, which the spec needs; "
            "`leave_out:` what reads it"
        )
    datasets = [DatasetFolder(name, Path(folder), split_rule(stage.params, name)) for name, folder in stage.inputs["datasets"].items()]
    if "option_logits" not in given and not stage.params.get(IN_WORDS):
        _refuse_multiple_choice(chosen["label"], plugin.name, datasets)
    folder = stage.inputs.get("model")
    context = ModelContext(chosen["label"], Path(folder) if folder else None, chosen.get("dtype"), stage.settings)
    variants = read_variants(stage.params["variants"], stage.inputs.get("perturbed"))
    return InferenceJob(load("models", plugin.name)(context, **chosen["args"]), plugin.module, datasets, variants, needs)


def _refuse_multiple_choice(label: str, plugin: str, datasets: list[DatasetFolder]) -> None:
    """Raise StageError if a dataset has multiple-choice questions."""
    for dataset in datasets:
        chosen = next((s["sample_id"] for s in dataset.samples if s["choices"]), None)
        if chosen is not None:
            raise StageError(
                f"model '{label}': {plugin} with these parameters gives no option_logits, by which multiple-choice questions are scored; "
                f"dataset {dataset.name} has some, such as sample '{chosen}' (`qualm ls models {plugin}` says what it takes; "
                "`judges: [option_match]` reads answers in words)"
            )
