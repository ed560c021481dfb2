"""Weights & Biases: an offline run for each model."""

import hashlib
import shutil
from pathlib import Path

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._runs import TrackedRun, needing, tracked_runs

OF = "runs"


def wandb(context: ExportContext, *, project: str = "", group: str = "") -> None:
    """Write scores with intervals, parameters and training curves as offline runs of W&B.

    Each model is a run with `DATASET/METRIC`, `DATASET/METRIC.low` and `.high` in its summary, the columns of its training log over
    `training/step`, and its parameters as config. Nothing is sent until `wandb sync OUT/wandb/offline-run-*`. The runs reveal of this
    machine only the names of its Python and platform. Undefined values are left out.

    Args:
        project: Its name; by default the spec's.
        group: The runs' group; by default the commit.
    """
    for run in tracked_runs(context):
        identity = f"{context.spec}\n{context.revision}\n{context.time.isoformat()}\n{run.name}"
        name = hashlib.sha256(identity.encode()).hexdigest()[:12]
        _log(context.folder, run, name, project or context.spec, group or context.revision)
    _tidy(context.folder / "wandb")


def _log(folder: Path, run: TrackedRun, name: str, project: str, group: str) -> None:
    with needing("wandb"):
        import wandb as tracker

    settings = tracker.Settings(
        mode="offline",
        console="off",
        silent=True,
        host="",
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )
    own = tracker.init(
        project=project, name=run.name, group=group or None, id=name, config=dict(run.params), dir=str(folder), settings=settings
    )
    own.define_metric("training/*", step_metric="training/step")
    steps: dict[int, dict[str, float]] = {}
    for curve, points in run.curves.items():
        for step, value in points:
            steps.setdefault(step, {})[curve] = value
    for step in sorted(steps):
        own.log({"training/step": step, **steps[step]})
    own.summary.update(run.metrics)
    own.finish()


def _tidy(folder: Path) -> None:
    """Delete logs, links and loose files below W&B's folder, which name paths of this machine."""
    for path in folder.glob("*"):
        if path.is_symlink() or path.is_file():
            path.unlink()
    for logs in folder.glob("offline-run-*/logs"):
        shutil.rmtree(logs)
