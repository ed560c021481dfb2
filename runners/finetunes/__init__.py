"""Training recipes: what is trained, on which batches, and how the result is saved. The trainer is shared.

A recipe is one file here holding one function of the file's name:

    def scratch_vlm(context: FinetuneContext, *, train: list[DatasetName], steps: int = 3000) -> Recipe: ...

What the `finetune` stage relies on:

- `Recipe.batches(step)` depends on its argument and the seed alone, so that training goes on after a kill as if nothing
  had happened. Nothing random happens in the module's `training_step`.
- `Recipe.module` is a LightningModule. Its `training_step` returns the loss and logs what is worth a curve with
  `self.log(name, value)`; its `configure_optimizers` says everything about learning rates.
- `Recipe.save(folder)` writes the model as `save_pretrained` does, processor and tokenizer included, weights as
  safetensors: what `models: hf_vlm` loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class FinetuneError(Exception):
    """Data or a base model that a recipe cannot train on. The message says what was expected, what came, what to do."""


@dataclass(frozen=True)
class FinetuneContext:
    """What the stage hands every recipe beside the spec's parameters."""

    datasets: Mapping[str, Path]
    """Folders of the `data` stages, by the spec's name."""
    seed: int
    base: Path | None = None
    """The model to start from; None for a recipe that starts from nothing."""
    dtype: str = "float32"

    def dataset(self, name: str) -> Path:
        """The folder of a dataset of the spec.

        Raises:
            FinetuneError: the stage was not given it.
        """
        if name not in self.datasets:
            raise FinetuneError(f"dataset '{name}' is not among this stage's inputs: {', '.join(sorted(self.datasets)) or 'none'}")
        return self.datasets[name]


@dataclass(frozen=True)
class Recipe:
    """Everything the shared trainer needs."""

    module: Any
    """A LightningModule, its weights already initialised from the seed."""
    batches: Callable[[int], Any]
    """The batch of a step, 0 <= step < steps."""
    steps: int
    save: Callable[[Path], None]
    """Write the trained model into an existing, empty folder."""
    evaluate: Callable[[], Mapping[str, float]] = field(default=dict)
    """Measures on held-out data, written to the log now and then; none by default."""
