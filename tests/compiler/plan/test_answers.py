"""Judging and estimating: whose ratings count, and what a stage reads."""

from pathlib import Path

from qualm.compiler.spec.canonical_json import canonical
from tests.compiler.plan.planned import SPEC, make


def test_judges_of_one_data_set(tmp_path: Path) -> None:
    """Scores use the first judge that is named: the spec's, or the dataset's own; the order of the others is no content."""
    several = SPEC.replace("judges: [rules]", "judges: [vqa, pope, amber]")
    plain = make(tmp_path, several)
    assert plain.stage("score").params["judge"] == "vqa" and "only" not in plain.stage("judge").params
    turned = make(tmp_path, several.replace("pope, amber", "amber, pope"))
    assert [canonical(s.as_json()) for s in turned.stages] == [canonical(s.as_json()) for s in plain.stages]
    own = make(tmp_path, several.replace("{card: synthetic_scenes, test: 10}", "{card: synthetic_scenes, test: 10, judges: [pope, amber]}"))
    assert own.stage("judge").params["only"] == {"scenes": ["pope", "amber"]}
    for stage in ("score", "report"):
        assert (own.stage(stage).params["judge"], own.stage(stage).params["judge_of"]) == ("vqa", {"scenes": "pope"})
    assert canonical(own.stage("infer-base-scenes").as_json()) == canonical(plain.stage("infer-base-scenes").as_json())


def test_estimating_depends_on_the_model_of_inference(tmp_path: Path) -> None:
    text = SPEC.replace("[perplexity]", "[deg_mat: {nli: [lexical, {hf: {artifact: some-nli}}]}]")
    stage = make(tmp_path, text).stage("estimate")
    assert {
        "registry/data/some-nli",
        "runners/plugins/nli/hf.py",
        "runners/plugins/nli/lexical.py",
        "runners/contracts/nli.py",
        "runners/inference/nli.py",
    } <= set(stage.deps)
    assert [e["label"] for e in stage.params["estimators"]] == ["deg_mat@nli=hf(artifact=some-nli)", "deg_mat@nli=lexical"]


def test_scoring_knows_which_estimators_compare_words_alone(tmp_path: Path) -> None:
    text = SPEC.replace(
        "[perplexity]", "[perplexity, luq, deg_mat: {similarity: [entailment, jaccard], nli: [lexical, {hf: {artifact: m}}]}]"
    )
    assert make(tmp_path, text).stage("score").params["lexical"] == ["deg_mat@similarity=entailment,nli=lexical", "luq"]
    assert "lexical" not in make(tmp_path, SPEC).stage("score").params


def test_precision_of_conformal_settings(tmp_path: Path) -> None:
    both = SPEC.replace("scores: [lac]", "scores: [lac], precision: [double, single]")
    found = {s["label"]: s["precision"] for s in make(tmp_path, both).stage("calibrate").params["settings"]}
    assert found == {"half@precision=double": "double", "half@precision=single": "single"}
    assert make(tmp_path, SPEC).stage("calibrate").params["settings"][0]["precision"] == "double"
