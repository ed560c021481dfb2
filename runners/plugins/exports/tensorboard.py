"""TensorBoard: a folder of event files for each model."""

from datetime import datetime
from pathlib import Path
from typing import Any

from qualm.registry.system.atomic import create_folder
from qualm.runners.plugins.exports import ExportContext, slug
from qualm.runners.plugins.exports._runs import TrackedRun, needing, tracked_runs

OF = "runs"


def tensorboard(context: ExportContext) -> None:
    """Write scores with intervals, parameters and training curves for TensorBoard.

    Each model is a run with scalars `DATASET/METRIC`, `DATASET/METRIC.low` and `.high` at its last training step (or 0), the columns of its
    training log, and its parameters for the HParams tab. Undefined values are left out.
    """
    runs = tracked_runs(context)
    for run in runs:
        folder = context.folder / slug(run.name)
        create_folder(folder)
        _write(folder / f"events.out.tfevents.{int(context.time.timestamp())}.qualm", run, context.time)


def _write(path: Path, run: TrackedRun, time: datetime) -> None:
    with needing("tensorboard"):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.record_writer import RecordWriter

    at = time.timestamp()
    steps = [step for points in run.curves.values() for step, _ in points]
    params: dict[Any, Any] = dict(run.params)

    def scalar(name: str, step: int, value: float) -> Event:
        return Event(wall_time=at, step=step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))

    with path.open("wb") as handle:
        writer = RecordWriter(handle)
        for event in (
            Event(wall_time=at, file_version="brain.Event:2"),
            Event(wall_time=at, summary=hparams_pb(params, trial_id=run.name, start_time_secs=at)),
            *(scalar(name, step, value) for name, points in run.curves.items() for step, value in points),
            *(scalar(name, max(steps, default=0), value) for name, value in run.metrics.items()),
        ):
            writer.write(event.SerializeToString(deterministic=True))
