"""The `finetune` stage: train what a recipe describes with Lightning, and publish the model and its curve.

After every so many steps a checkpoint replaces the last one, so a killed run goes on from there and ends with the same
weights as one that was never killed (same processor; of large models on a CPU, same number of threads). How many devices
share the work, by which strategy and in which micro-batches is up to the settings: the batch of a step is the spec's, however
it is shared out.
"""

import logging
import math
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qualm.registry.formats import atomic
from qualm.registry.formats.disk_errors import DISK_FULL, explain_error
from qualm.registry.plugins.registry import get, load
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError, TrainingRecipe
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.inference.devices import keep_memory
from qualm.runners.inference.hf.weights import silence
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.runtime.prefetch import map_ahead
from qualm.runners.runtime.progress import Advance, progress
from qualm.runners.runtime.settings import Settings, is_first
from qualm.runners.runtime.stage import LOCAL, Stage, StageError, digest
from qualm.runners.training.training_log import log_callback

KIND = StageKind(
    title="Train {model}",
    reads=("datasets", "models", "beneath"),
    writes={"model": "models/{model}", "log": "training/{model}.csv"},
    colour="#b279a2",
    seeded=True,
    parallel=True,
    plots={"log": {"x": "step", "y": "loss", "title": "Training loss", "template": "linear"}},
    costly=True,
)

SMALL = 20_000_000
"""On a CPU, models of fewer parameters than SMALL are trained by one thread, however many cores there are: last digits come out otherwise
with another number. A second thread makes them no faster, as their tensors are small, and takes half as much processor time again."""
LEG = 100
"""Rows of the log, in steps, where a recipe does not say."""
_EXPECTED_WARNINGS = (
    "You're resuming from a checkpoint that ended before the epoch",  # `_shares` knows where it is
    "Your `IterableDataset` has `__len__` defined",
    "Checkpoint directory .* exists and is not empty",
    "Found .* module.s. in eval mode at the start of training",  # a frozen copy
    "`isinstance.treespec, LeafSpec.` is deprecated",  # Lightning's own
    "`is_gradient_checkpointing` is deprecated",  # peft's
    "Could not find a config file in .* - will assume that the vocabulary was not modified",  # peft, of an adapter on an adapter
    "The dataloader, train_dataloader, does not have many workers",
)
"""Warnings of libraries that tell a user nothing."""
_LOADERS = 2
"""Threads that prepare batches, where the settings leave the number open."""


def run(stage: Stage) -> None:
    """Train the recipe, from the stage's last checkpoint if any; publish model and log."""
    params = stage.params
    plugin = get("finetunes", params["plugin"])
    context = FinetuneContext(
        {name: Path(path) for name, path in stage.inputs.get("datasets", {}).items()},
        stage.seed,
        params.get("models", {}),
        {name: Path(path) for name, path in stage.inputs.get("models", {}).items()},
        stage,
    )
    work = _scratch_folder(stage, engine_digest(plugin.module))
    try:
        recipe = _make_in_first_process(work / "made", lambda: load("finetunes", params["plugin"])(context, **params["args"]))
        with progress(stage.settings, f"{params['name']}: steps", recipe.steps) as advance:
            state = train(recipe, work, stage.settings, stage.seed, advance, LOCAL / "tensorboard" / stage.spec / stage.name)
    except (FinetuneError, ModelError) as error:
        raise StageError(str(error)) from error
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise StageError(f"{explain_error(error, str(work))}; training goes on from its last checkpoint") from error
    if not is_first():
        return
    model = work / "model"
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir()
    silence()  # a recipe that loads no model has not silenced transformers, whose bars would end up in the stage's line
    recipe.save(model, state)
    for file in model.iterdir():
        file.chmod(0o644)  # safetensors writes for its owner alone
    trained = sum(p.numel() for p in recipe.module.parameters() if p.requires_grad)
    stage.count(steps=recipe.steps, parameters=sum(p.numel() for p in recipe.module.parameters()), trained=trained)
    stage.publish(model, stage.outputs["model"])
    stage.publish(work / "log.csv", stage.outputs["log"])
    shutil.rmtree(work)


def _make_in_first_process(done_file: Path, make: Callable[[], TrainingRecipe]) -> TrainingRecipe:
    """Make the recipe in the first process, then in the others, which find cached answers."""
    while not is_first() and not done_file.exists():
        time.sleep(0.1)
    recipe = make()
    if is_first():
        done_file.touch()
    return recipe


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
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint

    from qualm.runners.stages.finetune import checkpoint_plugins

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for message in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message)
    L.seed_everything(seed, verbose=False)
    devices = settings.devices * settings.nodes
    pieces = _count_micro_batches(recipe, settings, devices)
    log = log_callback()(recipe, work / "log.csv", advance, recipe.log_every or LEG)
    every = settings.checkpoint_every
    keep = ModelCheckpoint(dirpath=work / "checkpoints", filename="last", every_n_train_steps=every, enable_version_counter=False)
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
        logger=_event_logger(events) if events else False,
        log_every_n_steps=min(10, recipe.steps),
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[log, keep],
        plugins=checkpoint_plugins(settings.training_strategy),
    )
    last = work / "checkpoints" / "last.ckpt"
    shares, begun = _shares(recipe, pieces, settings), last if last.exists() else None
    with _threads(recipe, trainer.strategy.root_device.type):
        trainer.fit(recipe.module, datamodule=shares, ckpt_path=begun, weights_only=True)
    state: Mapping[str, Any] = trainer.strategy.lightning_module_state_dict()
    state = {name: value.to("cpu") for name, value in state.items()}
    if devices == 1:
        recipe.module.to("cpu").eval()
    return state


@contextmanager
def _threads(recipe: TrainingRecipe, device: str) -> Iterator[None]:
    """Use one thread for a small model on a CPU, and keep freed memory, within the context."""
    import torch

    before = torch.get_num_threads()
    if device == "cpu":
        keep_memory()
        if sum(p.numel() for p in recipe.module.parameters()) < SMALL:
            torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _count_micro_batches(recipe: TrainingRecipe, settings: Settings, devices: int) -> int:
    """Return the number of micro-batches per device and step."""
    if recipe.share is None and devices > 1:
        raise FinetuneError(f"this recipe trains on one device, but the settings say {devices}; set QUALM_DEVICES=1")
    if recipe.share is None or not settings.micro_batch:
        return 1
    return math.ceil(math.ceil(recipe.batch_size / devices) / settings.micro_batch)


def _event_logger(folder: Path) -> Any:
    """Return a TensorBoard logger that writes to `folder`."""
    from lightning.pytorch.loggers import TensorBoardLogger

    return TensorBoardLogger(save_dir=folder.parent, name=folder.name, version="")


def _scratch_folder(stage: Stage, code: str) -> Path:
    """Return the scratch folder of these parameters and data; remove those of others."""
    paths = [path for kind in ("datasets", "models") for path in stage.inputs.get(kind, {}).values()]
    inputs = digest([stage.inputs, {path: _files(Path(path)) for path in paths}])
    name = digest([stage.params, stage.seed, inputs, code])[:16]
    if is_first():
        for other in stage.scratch.iterdir():
            if other.is_dir() and other.name != name:
                shutil.rmtree(other)
    work = stage.scratch / name
    work.mkdir(exist_ok=True)
    return work


def _files(folder: Path) -> dict[str, list[int]]:
    """Return [size, modification time] of every file in a folder, by relative path."""
    return {p.relative_to(folder).as_posix(): [p.stat().st_size, p.stat().st_mtime_ns] for p in sorted(folder.rglob("*")) if p.is_file()}


def _shares(recipe: TrainingRecipe, pieces: int, settings: Settings) -> Any:
    """Return a data module that yields this device's micro-batches, step by step."""
    import lightning as L
    from torch.utils.data import DataLoader, IterableDataset

    class Shares(IterableDataset[Any]):
        def __init__(self, trainer: Any) -> None:
            self.trainer = trainer

        def __len__(self) -> int:
            return recipe.steps * pieces

        def __iter__(self) -> Any:
            rank, devices = self.trainer.global_rank, self.trainer.world_size
            mine = [(s, rank * pieces + p) for s in range(self.trainer.global_step, recipe.steps) for p in range(pieces)]

            share = recipe.share
            if share is None:
                return (recipe.batches(step) for step, _ in mine)
            return map_ahead(lambda place: share(*place, devices * pieces), mine, settings.workers or _LOADERS, depth=1)

    class Data(L.LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return DataLoader(Shares(self.trainer), batch_size=None)

    return Data()


def checkpoint_plugins(strategy: str) -> list[Any]:
    """Return the checkpoint plugins of Lightning's Trainer; [] if the strategy has its own."""
    if strategy.startswith("deepspeed"):
        return []
    from lightning.pytorch.plugins.io import TorchCheckpointIO

    class AtomicCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
        """Writer of checkpoints that replaces each file atomically; Lightning's own goes through the temporary folder."""

        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            import torch

            with atomic.file(Path(path), durable=True) as partial, partial.open("wb") as handle:
                torch.save(checkpoint, handle)

    return [AtomicCheckpointIO()]
