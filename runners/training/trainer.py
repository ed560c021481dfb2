"""Train a recipe with Lightning: devices, micro-batches, checkpoints and the log.

After every so many steps a checkpoint replaces the last one, so a killed run goes on from there and ends with the same weights as one
that was never killed (same processor; of large models on a CPU, same number of threads). How many devices share the work, by which
strategy and in which micro-batches is up to the settings: the batch of a step is the spec's, however it is shared out.
"""

import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch.utils.data import DataLoader, IterableDataset

from qualm.registry.system import atomic
from qualm.runners.contracts.finetunes import FinetuneError, TrainingRecipe
from qualm.runners.inference.devices import keep_memory
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import Advance
from qualm.runners.runtime.settings import Settings
from qualm.runners.training.training_log import log_callback

SMALL = 20_000_000
"""On a CPU, models of fewer parameters than SMALL are trained by one thread, however many cores there are: last digits come out otherwise
with another number. A second thread makes them no faster, as their tensors are small, and takes half as much processor time again."""
LEG = 100
"""Rows of the log, in steps, where a recipe does not say."""
_EXPECTED_WARNINGS = (
    "You're resuming from a checkpoint that ended before the epoch",  # `MicroBatches` knows where it is
    "Your `IterableDataset` has `__len__` defined",
    "Checkpoint directory .* exists and is not empty",
    "Found .* module.s. in eval mode at the start of training",  # a frozen copy
    "`isinstance.treespec, LeafSpec.` is deprecated",  # Lightning's own
    "`is_gradient_checkpointing` is deprecated",  # peft's
    "Could not find a config file in .* - will assume that the vocabulary was not modified",  # peft, of an adapter on an adapter
    "The dataloader, train_dataloader, does not have many workers",
)
"""Warnings of libraries that tell a user nothing."""
LOADERS = 2
"""Threads that prepare batches, where the settings leave the number open."""


class AtomicCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
    """Writer of checkpoints that replaces each file atomically.

    Lightning's own goes through the temporary folder.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with atomic.file(Path(path), durable=True) as partial, partial.open("wb") as handle:
            torch.save(checkpoint, handle)


def checkpoint_plugins(strategy: str) -> list[TorchCheckpointIO]:
    """Return the checkpoint plugins of Lightning's Trainer; [] if the strategy has its own."""
    return [] if strategy.startswith("deepspeed") else [AtomicCheckpointIO()]


class MicroBatches(IterableDataset[Any]):
    """The micro-batches of this device from the trainer's current step on, step by step."""

    def __init__(self, recipe: TrainingRecipe, pieces: int, settings: Settings, trainer: L.Trainer) -> None:
        self.recipe, self.pieces, self.trainer = recipe, pieces, trainer
        self.loaders = settings.workers or LOADERS

    def __len__(self) -> int:
        return self.recipe.steps * self.pieces

    def __iter__(self) -> Iterator[Any]:
        rank, devices = self.trainer.global_rank, self.trainer.world_size
        steps, pieces = range(self.trainer.global_step, self.recipe.steps), range(self.pieces)
        mine = [(step, rank * self.pieces + piece) for step in steps for piece in pieces]
        share = self.recipe.share
        if share is None:
            return (self.recipe.batches(step) for step, _ in mine)
        return map_ahead(lambda place: share(*place, devices * self.pieces), mine, self.loaders, depth=1)


def train(
    recipe: TrainingRecipe, work: Path, settings: Settings, seed: int, advance: Advance, events: Path | None = None
) -> Mapping[str, Any]:
    """Train a recipe to its end, from its checkpoint in `work` if any; return the state dict.

    Args:
        recipe: what to train.
        work: scratch folder of this training.
        settings: devices and what else changes no result.
        seed: of whatever the recipe did not seed.
        advance: called after every step.
        events: where TensorBoard looks for curves.

    Returns:
        The module's state dict, gathered from all devices.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for message in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message)
    L.seed_everything(seed, verbose=False)
    devices = settings.devices * settings.nodes
    pieces = count_micro_batches(recipe, settings, devices)
    log = log_callback()(recipe, work / "log.csv", advance, recipe.log_every or LEG)
    keep = ModelCheckpoint(
        dirpath=work / "checkpoints", filename="last", every_n_train_steps=settings.checkpoint_every, enable_version_counter=False
    )
    trainer = L.Trainer(
        accelerator=settings.device,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=settings.training_strategy,
        precision=recipe.precision,
        accumulate_grad_batches=pieces,
        max_steps=recipe.steps,
        max_epochs=-1,
        deterministic="warn",
        gradient_clip_val=1.0,
        logger=TensorBoardLogger(events.parent, events.name, "") if events else False,
        log_every_n_steps=min(10, recipe.steps),
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[log, keep],
        plugins=checkpoint_plugins(settings.training_strategy),
    )
    last = work / "checkpoints" / "last.ckpt"
    batches = DataLoader(MicroBatches(recipe, pieces, settings, trainer), batch_size=None)
    with _threads(recipe, trainer.strategy.root_device.type):
        trainer.fit(recipe.module, batches, ckpt_path=last if last.exists() else None, weights_only=True)
    state: Mapping[str, Any] = trainer.strategy.lightning_module_state_dict()
    state = {name: value.to("cpu") for name, value in state.items()}
    if devices == 1:
        recipe.module.to("cpu").eval()
    return state


@contextmanager
def _threads(recipe: TrainingRecipe, device: str) -> Iterator[None]:
    """Keep freed memory on a CPU, and use one thread there for a small model in the context."""
    before = torch.get_num_threads()
    if device == "cpu":
        keep_memory()
        if sum(p.numel() for p in recipe.module.parameters()) < SMALL:
            torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def count_micro_batches(recipe: TrainingRecipe, settings: Settings, devices: int) -> int:
    """Return the micro-batches per device and step; 1 if no micro-batch size is set.

    A recipe that trains on one device only has 1 too.

    Raises:
        FinetuneError: several devices for a recipe that trains on one.
    """
    if recipe.share is None and devices > 1:
        raise FinetuneError(f"this recipe trains on one device, but the settings say {devices}; set QUALM_DEVICES=1")
    if recipe.share is None or not settings.micro_batch:
        return 1
    return math.ceil(math.ceil(recipe.batch_size / devices) / settings.micro_batch)
