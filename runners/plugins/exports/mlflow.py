"""MLflow: a database of runs, one for each model."""

from qualm.runners.plugins.exports import ExportContext
from qualm.runners.plugins.exports._runs import TrackedRun, needing, tracked_runs

OF = "runs"
BATCH = 1000
"""Metrics per request to MLflow."""
MAX_PARAMETER = 6000
"""Characters of a parameter."""


def mlflow(context: ExportContext, *, uri: str = "", experiment: str = "") -> None:
    """Log scores with intervals, parameters and training curves to MLflow.

    Each model is a run with metrics `DATASET/METRIC`, `DATASET/METRIC.low` and `.high` at its last training step (or 0), and the columns
    of its training log. `mlflow ui --backend-store-uri sqlite:///OUT/mlflow.db` shows them. Undefined values are left out.

    Args:
        uri: Tracking server, such as http://127.0.0.1:5000; by default a new database in the folder.
        experiment: Its name; by default the spec's.
    """
    runs = tracked_runs(context)
    with needing("mlflow"):
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri or f"sqlite:///{context.folder / 'mlflow.db'}")
    name = experiment or context.spec
    existing = client.get_experiment_by_name(name)
    place = {} if uri else {"artifact_location": "mlruns"}
    number = existing.experiment_id if existing else client.create_experiment(name, **place)
    for run in runs:
        _log(client, number, run, int(context.time.timestamp() * 1000), context.title)


def _log(client: object, experiment: str, run: TrackedRun, at: int, title: str) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    assert isinstance(client, MlflowClient)
    last = max((step for points in run.curves.values() for step, _ in points), default=0)
    values = [(name, value, step) for name, points in run.curves.items() for step, value in points]
    values += [(name, value, last) for name, value in run.metrics.items()]
    metrics = [Metric(name, value, at, step) for name, value, step in values]
    tags = {"mlflow.note.content": title, "mlflow.source.name": "qualm", "mlflow.source.git.commit": run.params.get("revision", "")}
    own = client.create_run(experiment, start_time=at, tags={key: text for key, text in tags.items() if text}, run_name=run.name)
    client.log_batch(own.info.run_id, params=[Param(name, text[:MAX_PARAMETER]) for name, text in run.params.items()])
    for begin in range(0, len(metrics), BATCH):
        client.log_batch(own.info.run_id, metrics=metrics[begin : begin + BATCH])
    client.set_terminated(own.info.run_id, end_time=at)
