"""Judging and estimating: whose ratings count, and what a stage reads."""

from pathlib import Path

from compiler.plan import canonical
from tests.compiler.planning.planned import SPEC, make


def test_judges_of_one_data_set(tmp_path: Path) -> None:
    """Scores use the first judge that is named: the spec's, or the data set's own; the order of the others is no content."""
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
    assert {"registry/data/some-nli", "runners/nli/hf.py", "runners/nli/lexical.py", "runners/nli/__init__.py"} <= set(stage.deps)
    assert [e["label"] for e in stage.params["estimators"]] == ["deg_mat@nli=hf(artifact=some-nli)", "deg_mat@nli=lexical"]
