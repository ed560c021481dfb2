from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from qualm.compiler.results.scores import conformal_setting, conformal_settings, read_scores, read_spec_results, score_stage, select
from qualm.compiler.spec.errors import ProjectError
from qualm.runners.scoring.measuring.labels import main_setting
from tests.support.data.score_files import write_scores

LABELS = [
    "accuracy",
    "ece@bins=10",
    "set_size[ours/lac]",
    "set_size[ours/mean]",
    "set_size[half/mean]",
    "accuracy[half]",
    "auroc[perplexity]",
]


def row(metric, **changes):
    return {"model": "m", "dataset": "d", "variant": "clean", "slice": "all", "metric": metric, **changes}


ROWS = [*map(row, LABELS), row("accuracy", variant="blur"), row("accuracy", slice="category=x"), row("accuracy", model="n", dataset="e")]


def labels(**filters):
    return [(r["metric"], r["variant"], r["slice"], r["model"]) for r in select(ROWS, **filters)]


def test_clean_inputs_all_questions_and_the_main_setting_are_shown_where_nothing_is_asked_for():
    assert [r[0] for r in labels(models=["m"])] == [label for label in LABELS if "half" not in label]
    assert labels(models=["n"]) == [("accuracy", "clean", "all", "n")] == labels(datasets=["e"])
    assert labels(variants=["blur"]) == [("accuracy", "blur", "all", "m")] and labels(slices=["category=x"])[0][2] == "category=x"


@pytest.mark.parametrize(
    "metric, found",
    [("ece", ["ece@bins=10"]), ("ece@bins=10", ["ece@bins=10"]), ("set_size", LABELS[2:5]), ("accuracy[half]", ["accuracy[half]"])],
)
def test_metrics_by_whole_label_or_plugin(metric, found):
    assert [r["metric"] for r in select(ROWS, metrics=[metric])] == found


@pytest.mark.parametrize(
    "filters, message",
    [
        ({"models": ["mm"]}, "no model 'mm' in these results"),
        ({"metrics": ["eec"]}, "no metric 'eec' .*did you mean 'ece'"),
        ({"variants": ["b"]}, "no variant"),
    ],
)
def test_names_that_are_not_there(filters, message):
    with pytest.raises(ProjectError, match=message):
        select(ROWS, **filters)


def test_conformal_settings_are_known_by_their_means():
    assert (
        conformal_settings(LABELS) == ["ours", "half"]
        and main_setting(["half", "ours"]) == "ours"
        and main_setting(["share@0.1", "b", "a"]) == "b"
    )
    assert main_setting(["share@0.1"]) == "share@0.1" and main_setting([]) == ""


@pytest.mark.parametrize(
    "label, setting",
    [
        ("accuracy[half]", "half"),
        ("set_size[half/lac]", "half"),
        ("accuracy", ""),
        ("auroc[perplexity]", ""),
        ("accuracy@rows=all[half]", ""),
    ],
)
def test_the_setting_whose_test_rows_a_metric_is_over(label, setting):
    assert conformal_setting(label, ["ours", "half"]) == setting


def project(*stages):
    plan = SimpleNamespace(spec="s", stages=stages, writers=lambda key: [s for s in stages if key in s.outputs])
    return SimpleNamespace(plan=lambda spec: plan, root=Path())


def test_the_score_stage_and_its_models():
    score = SimpleNamespace(
        name="score", kind="score", outputs={"scores": "s"}, inputs={"generations": {"a": {}, "b": {}}}, params={}, seed=7
    )
    abstain = SimpleNamespace(outputs=["abstentions"], params={"abstentions": [{"label": "x", "fit": "half", "of": ["a"]}]})
    assert score_stage(project(abstain, score), None) is score
    models = read_spec_results(project(abstain, score), None).models
    assert models[:2] == ["a", "b"] and len(models) == 3 and models[2].startswith("a+")
    abstain.params["blind_refuser"] = ["b"]
    variants = [{"variant": "clean"}, {"variant": "swapped_picture", "picture": "swapped"}]
    infer = SimpleNamespace(outputs=["generations"], params={"model": {"label": "a"}, "variants": variants})
    blind = ["a+swapped_picture", "b+blind_refuser"]
    assert read_spec_results(project(infer, abstain, score), None).models == ["a", "b", blind[0], models[2], blind[1]]
    with pytest.raises(ProjectError, match="spec 's' has no metrics"):
        score_stage(project(abstain), None)


def test_a_table_of_scores(tmp_path):
    with pytest.raises(ProjectError, match="no scores there; run the benchmark with `qualm run SPEC`"):
        read_scores(tmp_path / "scores.parquet")
    write_scores(tmp_path / "scores.parquet", [])
    assert read_scores(tmp_path / "scores.parquet") == []
    rows = [row("accuracy") | {"value": 0.5, "n": 4, "n_unscored": 0, "slice": part} for part in ("all", "category=x")]
    write_scores(tmp_path / "scores.parquet", rows)
    assert [r["slice"] for r in read_scores(tmp_path / "scores.parquet")] == ["all", "category=x"]
    assert [r["slice"] for r in read_scores(tmp_path / "scores.parquet", pl.col("slice") == "all")] == ["all"]
    Path(tmp_path / "scores.parquet").write_bytes(b"no table")
    with pytest.raises(ProjectError):
        read_scores(tmp_path / "scores.parquet")
