import numpy as np
import pytest

from qualm.registry.plugins import registry
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.measuring.metrics import bounds_of, metric_of, read_metrics


def test_a_metric_that_reads_no_such_column(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("def bad(nonsense, weights):\n    return nonsense\n")
    monkeypatch.setattr(registry, "files", lambda kind: {"bad": (tmp_path / "bad.py", "bad")})
    with pytest.raises(StageError, match=r"bad reads nonsense, weights; expected columns of answerable, clean_correct.*then weights"):
        read_metrics([{"label": "bad", "plugin": "bad", "args": {}}])


@pytest.mark.parametrize(
    ("name", "args", "columns", "expected"),
    [
        ("accuracy", {}, {}, (0, 1)),
        ("hallucination_change_correlation", {"only_clean_correct": False}, {}, (-1, 1)),
        ("brier", {"over": "options"}, {}, (0, 2)),
        ("nll", {"floor": 0.0}, {}, (0, np.inf)),
        ("effective_reliability", {"cost": 10.0}, {}, (-10, 1)),
        ("mme_score", {"subtask": "kind"}, {"code_of_kind": np.array([1.0, 2, 2])}, (0, 400)),
        ("set_size", {}, {"never_empty": np.ones(3), "n_options": np.array([2.0, 6, 4])}, (1, 6)),
        ("set_size", {}, {"never_empty": np.array([1.0, 0, 1]), "n_options": np.full(3, 4.0)}, (0, 4)),
        ("uncertainty_aware_accuracy", {}, {"never_empty": np.ones(3), "n_options": np.full(3, 4.0)}, (0, 2)),
        ("set_size", {}, {"n_options": np.full(3, 4.0)}, (-np.inf, np.inf)),
        ("mean_uncertainty", {}, {}, (-np.inf, np.inf)),
    ],
)
def test_what_a_metric_can_be(name, args, columns, expected):
    (metric,) = read_metrics([{"label": name, "plugin": name, "args": args}])
    assert bounds_of(metric, columns.get) == expected


def test_a_label_is_of_the_metric_it_begins_with():
    metrics = read_metrics([{"label": name, "plugin": "accuracy", "args": {}} for name in ("accuracy", "accuracy@2")])
    found = [metric_of(label, metrics).label for label in ("accuracy", "accuracy@2", "accuracy[kind]", "accuracy@2[kind]")]
    assert found == ["accuracy", "accuracy@2", "accuracy", "accuracy@2"]
    with pytest.raises(KeyError, match="accuracy_of"):
        metric_of("accuracy_of", metrics)
