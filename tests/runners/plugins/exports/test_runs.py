"""What trackers show of each model."""

import pytest

from qualm.runners.plugins.exports import ExportError
from qualm.runners.plugins.exports._runs import metric_key, needing, tracked_runs
from tests.support.data.score_files import write_scores
from tests.support.projects.tracked import BASE, CURVES, SCORE, TUNED, tracked


def test_parameters_scores_and_curves(tmp_path):
    context = tracked(tmp_path)
    base, tuned = tracked_runs(context)
    assert (base.name, base.metrics, base.curves) == ("base", BASE, {})
    assert (tuned.name, tuned.metrics, tuned.curves) == ("tuned", TUNED, CURVES)
    assert base.params == {
        "spec": "bench", "revision": "abc123", "model": "base", "plugin": "hf_vlm", "model.artifact": "x", "decoding.max_new_tokens": "16",
    }  # fmt: skip
    assert "plugin" not in tuned.params and context.lost == {"undefined scores": 1} and context.counts["scores"] == 4


def test_chosen_models_and_data_sets(tmp_path):
    (base,) = tracked_runs(tracked(tmp_path, models_asked=("base",)))
    assert base.name == "base"
    (tmp_path / "other").mkdir()
    (tuned,) = tracked_runs(tracked(tmp_path / "other", datasets_asked=("e",)))
    assert tuned.metrics == {} and tuned.curves == CURVES


@pytest.mark.parametrize(
    "label, key",
    [("accuracy", "accuracy"), ("auroc[a b:c]", "auroc/a_b_c"), ("f1@x=1,y=2[ours]", "f1.x-1_y-2/ours"), ("d@test=[5, 6]", "d.test-/5_6")],
)
def test_names_that_every_tracker_takes(label, key):
    assert metric_key(label) == key


def test_two_scores_of_one_name(tmp_path):
    context = tracked(tmp_path)
    rows = [{**SCORE, "model": "m", "metric": name, "value": 0.5} for name in ("a b", "a:b")]
    write_scores(tmp_path / "scores.parquet", rows)
    with pytest.raises(ExportError, match="two scores of 'm' would both be called 'd/a_b'"):
        tracked_runs(context)


def test_nothing_scored(tmp_path):
    context = tracked(tmp_path)
    context.results = {}
    with pytest.raises(ExportError, match="'bench' has no scores; `qualm run bench` makes them"):
        tracked_runs(context)


def test_the_extra_of_what_is_not_installed():
    with pytest.raises(ExportError, match=r"no_such_tracker is not installed: `pip install 'qualm-bench\[wandb\]'`"), needing("wandb"):
        import no_such_tracker  # noqa: F401


def test_of_a_spec_without_metrics_the_curves_or_why_there_is_nothing(tmp_path):
    context = tracked(tmp_path, scored=False)
    context.results = {}
    (tuned,) = tracked_runs(context)
    assert (tuned.name, tuned.metrics, tuned.curves) == ("tuned", {}, CURVES)
    context.training = {}
    with pytest.raises(ExportError, match="spec 'bench' has no metrics, so there are no scores; add a `metrics:` section"):
        tracked_runs(context)
