"""Context of fine-tuning recipes, and what is trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.registry.plugins.registry import load
from qualm.runners.contracts.models import ModelContext
from qualm.runners.prompts.question import DEFAULT, Prompt
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage


class FinetuneError(Exception):
    """Error that data or a base model cannot be used for training; the message says why."""


@dataclass(frozen=True)
class FinetuneContext:
    """Run-time inputs of a fine-tuning recipe: dataset folders, seed, base models, stage."""

    datasets: Mapping[str, Path]
    """Dataset -> folder of its `data` stage."""
    seed: int
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Base models of the spec: name -> plugin and args."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Base models with own files: name -> folder."""
    stage: Stage | None = None
    """The running stage; None outside of one, where no model can be asked."""

    def prompt(self, dataset: str) -> Prompt:
        """Return a dataset's prompt settings, without few-shot examples; DEFAULT outside a stage."""
        return Prompt(**self.stage.params.get("prompts", {}).get(dataset, {})) if self.stage else DEFAULT

    @property
    def settings(self) -> Settings:
        return self.stage.settings if self.stage else Settings()

    def count(self, **numbers: int) -> None:
        if self.stage:
            self.stage.count(**numbers)

    def dataset(self, name: str) -> Path:
        """Return the folder of a dataset of the spec; FinetuneError if the stage lacks it."""
        if name not in self.datasets:
            raise FinetuneError(f"dataset '{name}' is not among this stage's inputs: {', '.join(sorted(self.datasets)) or 'none'}")
        return self.datasets[name]

    def model(self, name: str) -> Any:
        """Create the named base model of the spec by its plugin, without reading its weights.

        Raises:
            FinetuneError: the stage does not have it.
            ModelError: it cannot be created.
        """
        if name not in self.models:
            raise FinetuneError(f"model '{name}' is not among this stage's inputs: {', '.join(sorted(self.models)) or 'none'}")
        chosen = self.models[name]
        return load("models", chosen["plugin"])(ModelContext(name, self.folders.get(name)), **chosen["args"])


@dataclass(frozen=True)
class TrainingRecipe:
    """Module, batches and number of steps for the trainer, and how to save and evaluate."""

    module: Any
    """A LightningModule with initialised weights."""
    batches: Callable[[int], Any]
    """Return the batch of a step, 0 <= step < steps."""
    steps: int
    save: Callable[[Path, Mapping[str, Any]], None]
    """Write the trained model into an existing, empty folder."""
    evaluate: Callable[[], Mapping[str, float]] = field(default=dict)
    """Return measures on held-out data, which are logged now and then."""
    share: Callable[[int, int, int], Any] | None = None
    """Return a share of a step's batch; None for recipes that need one device and whole batches."""
    batch_size: int = 1
    log_every: int | None = None
    """Steps per row of the log; None = the trainer's default."""
    precision: str = "32-true"
    """Lightning's precision, by the dtype of the weights."""
