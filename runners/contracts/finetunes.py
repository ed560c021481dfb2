"""Training recipes: what is trained, on which batches, and how the result is saved. The trainer is shared.

A recipe is one file here holding one function of the file's name:

    def sft(context: FinetuneContext, *, base: ModelName, train: list[DatasetName], rate: float = 2e-4, ...) -> TrainingRecipe: ...

What the `finetune` stage relies on:

- `TrainingRecipe.batches(step)` depends on its argument and the seed alone, so that training goes on after a kill as if nothing
  had happened. Chance in the module's `training_step` (dropout) is seeded by the step.
- `TrainingRecipe.share(step, part, parts)`, where there is one, gives one of several shares of that batch, for several devices or for
  gradient accumulation; their losses are scaled so that their mean is the batch's loss. So what is trained on in a step
  never depends on how many devices there are.
- `TrainingRecipe.module` is a LightningModule. Its `training_step` returns the loss and logs what is worth a curve with
  `self.log(name, value)`; its `configure_optimizers` says everything about learning rates.
- `TrainingRecipe.save(folder, state)` writes the model as `save_pretrained` does, processor and tokenizer included, weights as
  safetensors: what `models: hf_vlm` loads. `state` is the module's state dict, gathered from all devices.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry.plugins.rule import load
from qualm.runners.contracts.models import ModelContext
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage


class FinetuneError(Exception):
    """Data or a base model that a recipe cannot train on. The message says what was expected, what came, what to do."""


@dataclass(frozen=True)
class FinetuneContext:
    """What the stage hands every recipe beside the spec's parameters."""

    datasets: Mapping[str, Path]
    """Folders of the `data` stages, by the spec's name."""
    seed: int
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Models of the spec to start from: name -> plugin and args."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Where those of them lie that have files of their own."""
    stage: Stage | None = None
    """The stage that this is a part of; None where a recipe is made outside one, which then can ask no model."""

    @property
    def settings(self) -> Settings:
        return self.stage.settings if self.stage else Settings()

    def count(self, **numbers: int) -> None:
        """Add to the stage's counters: `count(dropped=3)`."""
        if self.stage:
            self.stage.count(**numbers)

    def dataset(self, name: str) -> Path:
        """Return the folder of a dataset of the spec; FinetuneError if the stage lacks it."""
        if name not in self.datasets:
            raise FinetuneError(f"dataset '{name}' is not among this stage's inputs: {', '.join(sorted(self.datasets)) or 'none'}")
        return self.datasets[name]

    def model(self, name: str) -> Any:
        """A model of the spec, its weights not yet read.

        Raises:
            FinetuneError: the stage was not given it.
            ModelError: it cannot be made.
        """
        if name not in self.models:
            raise FinetuneError(f"model '{name}' is not among this stage's inputs: {', '.join(sorted(self.models)) or 'none'}")
        chosen = self.models[name]
        return load("models", chosen["plugin"])(ModelContext(name, self.folders.get(name)), **chosen["args"])


@dataclass(frozen=True)
class TrainingRecipe:
    """Everything the shared trainer needs."""

    module: Any
    """A LightningModule, its weights already initialised from the seed."""
    batches: Callable[[int], Any]
    """The batch of a step, 0 <= step < steps."""
    steps: int
    save: Callable[[Path, Mapping[str, Any]], None]
    """Write the trained model into an existing, empty folder."""
    evaluate: Callable[[], Mapping[str, float]] = field(default=dict)
    """Measures on held-out data, written to the log now and then; none by default."""
    share: Callable[[int, int, int], Any] | None = None
    """A share of a step's batch; None for a recipe that trains on one device, a whole batch at a time."""
    batch_size: int = 1
    """Examples in a step's batch, by which accumulation divides it."""
    log_every: int | None = None
    """Steps per row of the log; None takes the trainer's."""
    precision: str = "32-true"
    """Lightning's word for the arithmetic; what the weights' dtype asks for."""
