"""The `finetune` stage: train what a recipe describes with Lightning, and publish the model and its curve.

A killed run goes on from its last checkpoint (`qualm.runners.training.trainer`).
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from qualm.registry.plugins.registry import get, load
from qualm.registry.system.disk_errors import DISK_FULL, explain_error
from qualm.runners.contracts.finetunes import FinetuneContext, FinetuneError, TrainingRecipe
from qualm.runners.contracts.models import ModelError
from qualm.runners.contracts.stages import StageKind
from qualm.runners.inference.hf.weights import silence
from qualm.runners.runtime.code_digest import engine_digest
from qualm.runners.runtime.progress import progress
from qualm.runners.runtime.settings import is_first
from qualm.runners.runtime.stage import LOCAL, Stage, StageError, digest
from qualm.runners.training.trainer import train

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


def _scratch_folder(stage: Stage, code: str) -> Path:
    """Return the scratch folder of these parameters, inputs and code; delete all older ones."""
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
