"""MLflow: a database that its own client reads."""

from importlib.util import find_spec

import pytest

from qualm.runners.plugins.exports.mlflow import mlflow
from tests.support.projects.tracked import BASE, CURVES, TUNED, tracked


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, ("mlflow", "sqlalchemy", "alembic"))), reason="needs mlflow-skinny, sqlalchemy and alembic")
def test_its_client_finds_scores_curves_and_parameters(tmp_path):
    from mlflow import MlflowClient

    context = tracked(tmp_path)
    mlflow(context)
    assert [path.name for path in context.folder.iterdir()] == ["mlflow.db"]
    client = MlflowClient(tracking_uri=f"sqlite:///{context.folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("bench")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"base", "tuned"}
    assert runs["base"].data.metrics == BASE and runs["base"].data.params["model.artifact"] == "x"
    assert runs["tuned"].data.metrics == TUNED | {name: points[-1][1] for name, points in CURVES.items()}
    for name, points in CURVES.items():
        history = client.get_metric_history(runs["tuned"].info.run_id, name)
        assert [(metric.step, metric.value) for metric in history] == points
    assert runs["base"].info.status == "FINISHED" and runs["base"].info.start_time == int(context.time.timestamp() * 1000)
    assert runs["base"].data.tags["mlflow.source.git.commit"] == "abc123"
