"""The `finetune` stage: train what a recipe describes with Lightning, and publish the model and its curve.

Training runs in legs of a fixed number of steps. After each leg a checkpoint replaces the last one, so a killed run goes
on from there and ends with the same weights as one that was never killed (same machine, same number of threads).
"""

from __future__ import annotations

import csv
import logging
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from registry.plugins import get, load
from runners.code import engine_digest
from runners.finetunes import FinetuneContext, FinetuneError, Recipe
from runners.progress import Advance, progress
from runners.settings import Settings
from runners.stage import Stage, StageError, digest

LEG = 100
"""Steps between checkpoints, and rows of the log."""


def run(stage: Stage) -> None:
    """Train, save, publish; go on from the checkpoint that an earlier run of the very same stage left."""
    plugin = get("finetunes", stage.params["plugin"])
    datasets = {name: Path(path) for name, path in stage.inputs.get("datasets", {}).items()}
    base = Path(stage.inputs["base"]) if stage.inputs.get("base") else None
    context = FinetuneContext(datasets, stage.seed, base, stage.params.get("dtype") or "float32")
    work = _workplace(stage, engine_digest(plugin.module))
    try:
        recipe = load("finetunes", stage.params["plugin"])(context, **stage.params["args"])
        with progress(stage.settings, f"{stage.params['name']}: steps", recipe.steps) as advance:
            train(recipe, work, stage.settings, stage.seed, advance)
    except FinetuneError as error:
        raise StageError(str(error)) from error
    model = work / "model"
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir()
    recipe.save(model)
    for file in model.iterdir():
        file.chmod(0o644)  # safetensors writes for its owner alone
    stage.count(steps=recipe.steps, parameters=sum(p.numel() for p in recipe.module.parameters()))
    stage.publish(model, stage.outputs["model"])
    stage.publish(work / "log.csv", stage.outputs["log"])
    shutil.rmtree(work)


def train(recipe: Recipe, work: Path, settings: Settings, seed: int, advance: Advance) -> None:
    """Run a recipe to its end, from `work`'s checkpoint where there is one, and keep `work/log.csv`, a row per leg."""
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "You're resuming from a checkpoint that ended before the epoch")  # `_steps` knows where it is
    L.seed_everything(seed, verbose=False)
    log = _log_callback()(recipe, work / "log.csv", advance)
    keep = ModelCheckpoint(dirpath=work / "checkpoints", filename="last", every_n_train_steps=LEG, enable_version_counter=False)
    trainer = L.Trainer(
        accelerator=settings.device,
        devices=1,
        max_steps=recipe.steps,
        max_epochs=-1,
        deterministic=True,
        gradient_clip_val=1.0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[log, keep],
    )
    last = work / "checkpoints" / "last.ckpt"
    trainer.fit(recipe.module, datamodule=_steps(recipe), ckpt_path=last if last.is_file() else None, weights_only=True)
    recipe.module.to("cpu").eval()


def _workplace(stage: Stage, code: str) -> Path:
    """A scratch folder for these parameters, this data and this code; what another version left is removed."""
    inputs = digest([stage.inputs, {name: _files(Path(path)) for name, path in stage.inputs.get("datasets", {}).items()}])
    name = digest([stage.params, stage.seed, inputs, code])[:16]
    for other in stage.scratch.iterdir():
        if other.is_dir() and other.name != name:
            shutil.rmtree(other)
    work = stage.scratch / name
    work.mkdir(exist_ok=True)
    return work


def _files(folder: Path) -> dict[str, list[int]]:
    """Names, sizes and times of a dataset's files: enough to know that a checkpoint was made with other data."""
    return {str(p.relative_to(folder)): [p.stat().st_size, p.stat().st_mtime_ns] for p in sorted(folder.rglob("*")) if p.is_file()}


def _write_log(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, restval="")
        writer.writeheader()
        writer.writerows({k: v if isinstance(v, int) else round(v, 5) for k, v in row.items()} for row in rows)


def _steps(recipe: Recipe) -> Any:
    """A data module that gives the batch of the step the trainer is at, wherever it was resumed."""
    import lightning as L
    from torch.utils.data import DataLoader, Dataset

    class Steps(Dataset[Any]):
        def __init__(self, trainer: Any) -> None:
            self.trainer = trainer

        def __len__(self) -> int:
            return recipe.steps

        def __getitem__(self, index: int) -> Any:
            return recipe.batches(self.trainer.global_step)

    class Data(L.LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return DataLoader(Steps(self.trainer), batch_size=None)

    return Data()


def _log_callback() -> Any:
    """A callback that averages what the module logs over each leg; its rows live in the checkpoint."""
    import lightning as L

    class Log(L.Callback):  # type: ignore[misc]
        def __init__(self, recipe: Recipe, file: Path, advance: Advance) -> None:
            self.recipe, self.file, self.advance = recipe, file, advance
            self.rows: list[dict[str, float]] = []
            self.sums: dict[str, float] = {}
            self.seen = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.advance(trainer.global_step)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            for name, value in trainer.callback_metrics.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(value)
            self.seen += 1
            self.advance()
            if trainer.global_step % LEG == 0 or trainer.global_step >= self.recipe.steps:
                self.end_leg(trainer, pl_module)

        def end_leg(self, trainer: Any, pl_module: Any) -> None:
            row: dict[str, float] = {"step": trainer.global_step, **{k: v / self.seen for k, v in self.sums.items()}}
            if len(self.rows) % 5 == 4 or trainer.global_step >= self.recipe.steps:
                pl_module.eval()
                row.update(self.recipe.evaluate())
                pl_module.train()
            self.rows.append(row)
            _write_log(self.file, self.rows)
            self.sums, self.seen = {}, 0

        def state_dict(self) -> dict[str, Any]:
            return {"rows": self.rows}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.rows = list(state_dict["rows"])

    return Log
