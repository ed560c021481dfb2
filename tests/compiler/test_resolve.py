"""A spec's mistakes against plugins, other sections and itself: exact text, exact place, all at once."""

from pathlib import Path

import pytest

from compiler.errors import SpecError
from compiler.resolve import Resolved, resolve_file
from compiler.spec import RunWide

GOOD = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
perturbations:
  - blur: {radius: [2, 6]}
judges: [rules]
estimators: [perplexity]
conformal:
  half: {scores: [lac, aps]}
metrics:
  - accuracy
  - ece: {bins: 15}
  - auroc
  - set_size
"""


def resolve(tmp_path: Path, text: str, name: str = "t") -> Resolved:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return resolve_file(path, tmp_path, RunWide(default="t"))


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve(tmp_path, text)
    return [str(p) for p in caught.value.problems]


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("qualm: 1", "qualm: 2", "t.yaml:1:8: qualm: expected 1, got 2"),
        ("qualm: 1\n", "", "t.yaml:1:1: qualm: expected the key 'qualm', found none (add it)"),
        ("name: t", "name: other", "t.yaml:2:7: name: expected the file's own name 't', got 'other'"),
        ("models:", "modles:", "t.yaml:5:1: modles: unknown key 'modles' (did you mean 'models'?)"),
        (
            "card: synthetic_scenes",
            "card: synthetic_scene",
            "t.yaml:4:18: datasets.scenes.card: ",
        ),
        (
            "test: 10",
            "tets: 10",
            "t.yaml:4:36: datasets.scenes.tets: synthetic_scenes has no parameter 'tets' (did you mean 'test'?)",
        ),
        ("test: 10", "test: ten", "t.yaml:4:42: datasets.scenes.test: expected a whole number, got the text 'ten'"),
        ("test: 10", "test: true", "t.yaml:4:42: datasets.scenes.test: expected a whole number, got the boolean true"),
        ("test: 10", "test: -1", "t.yaml:4:42: datasets.scenes.test: expected a number >= 0, got -1"),
        ("hf_vlm:", "hf_vml:", "t.yaml:6:10: models.base.hf_vml: no models plugin named 'hf_vml'; did you mean 'hf_vlm'?"),
        (
            "scene-vlm-base",
            "../../etc",
            "t.yaml:6:29: models.base.hf_vlm.artifact: "
            "expected a name of letters, digits, '_', '-' and '.', at most 64, got the text '../../etc'",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{recorded: {run: x}}",
            "t.yaml:6:20: models.base.recorded: recorded needs the parameter 'source' (Artifact)",
        ),
        (
            "radius: [2, 6]",
            "radius: [2, 2.0]",
            "t.yaml:8:20: perturbations[0].blur.radius: expected different values in a sweep, got one of them twice",
        ),
        (
            "radius: [2, 6]",
            "radius: []",
            "t.yaml:8:20: perturbations[0].blur.radius: expected at least one value in a sweep, got an empty list",
        ),
        ("[rules]", "[ruels]", "t.yaml:9:10: judges[0]: no judges plugin named 'ruels'; did you mean 'rules'?"),
        ("[perplexity]", "[perplexity, perplexity]", "t.yaml:10:26: estimators[1]: 'perplexity' is named twice"),
        ("[lac, aps]", "[lac, apps]", "t.yaml:12:24: conformal.half.scores[1]: no conformal plugin named 'apps'; did you mean 'aps'?"),
        ("[lac, aps]}", "[lac], alpha: 1.5}", "t.yaml:12:32: conformal.half.alpha: expected a number < 1.0, got 1.5"),
        ("bins: 15", "bins: 15.5", "t.yaml:15:17: metrics[1].ece.bins: expected a whole number, got 15.5"),
        ("bins: 15", "bins: '15'", "t.yaml:15:17: metrics[1].ece.bins: expected a whole number, got the text '15'"),
        ("  - accuracy\n", "  - {accuracy: {}, ece: {}}\n", "t.yaml:14:5: metrics[0]: expected one plugin of metrics, "),
        (
            "estimators: [perplexity]\n",
            "",
            "t.yaml:15:5: metrics[2]: auroc reads an uncertainty, and this spec has no estimators (add `estimators:`)",
        ),
        (
            "conformal:\n  half: {scores: [lac, aps]}\n",
            "",
            "t.yaml:15:5: metrics[3]: set_size reads conformal sets, and this spec has none (add a `conformal:` section)",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - vqa_accuracy\n",
            "t.yaml:15:5: metrics[1]: vqa_accuracy reads ratings by the judge 'vqa', which this spec has not (`judges: [vqa]`)",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - group_accuracy: {of: rated_by_lave}\n",
            "t.yaml:15:5: metrics[1]: group_accuracy reads ratings by the judge 'lave', which this spec has not (`judges: [lave]`)",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - yes_rate\n",
            "t.yaml:15:5: metrics[1]: yes_rate reads the mark 'said', which no judge whose ratings are scored gives "
            "(these do: amber, mme, pope; name one first under `judges:`, or as `judge` of the metric)",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - yes_rate: {judge: rules}\n",
            "t.yaml:15:5: metrics[1]: yes_rate reads the mark 'said', which the judge 'rules' does not give (these do: amber, mme, pope;",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - group_accuracy: {by: objcts}\n",
            "t.yaml:15:5: metrics[1]: samples have no field 'objcts' (did you mean 'objects'?)",
        ),
        (
            "judges:",
            "slices: [category, kind*levle]\njudges:",
            "t.yaml:9:20: slices[1]: samples have no field 'levle' (did you mean 'level'?)",
        ),
        (
            "test: 10}",
            "test: 10, judges: [rulse]}",
            "t.yaml:4:55: datasets.scenes.judges[0]: expected a judge of this spec, got 'rulse' (did you mean 'rules'?)",
        ),
        (
            "judges:",
            "compare: {baseline: bsae}\njudges:",
            "t.yaml:9:21: compare.baseline: expected a model of this spec, got 'bsae' (did you mean 'base'?)",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{recorded: {source: vlm_uncertainty_bench, run: x, format: vub}}",
            "t.yaml:10:14: estimators[0]: perplexity needs token_logprobs, which the model 'base' cannot give (it gives option_logits) "
            "(leave it out for this model: `leave_out: [perplexity]` beside recorded; models of hf_vlm, openai can)",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{openai: {model: m}}",
            "t.yaml:10:14: estimators[0]: perplexity needs token_logprobs, which the model 'base' cannot give (it gives draws, "
            "said_confidence, text) (set `logprobs` of openai; or leave it out for this model: `leave_out: [perplexity]` beside openai)",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{openai: {model: m}}",
            "t.yaml:12:3: conformal.half: conformal sets need option_logits, which the model 'base' cannot give (set `logprobs` of openai)",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{openai: {model: m}}\ninference: {confidence: verify}",
            "t.yaml:7:25: inference.confidence: `verify` asks every model to verify its answers, which 'base' (openai) cannot "
            "(set `logprobs` of openai)",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{hf_vlm: {artifact: scene-vlm-base}, leave_out: perplexity}",
            "t.yaml:6:57: models.base.leave_out: expected a list of estimators' names, got the text 'perplexity'",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{hf_vlm: {artifact: scene-vlm-base}, leave_out: [perplexty]}",
            "t.yaml:6:58: models.base.leave_out[0]: expected an estimator of this spec, got the text 'perplexty' "
            "(did you mean 'perplexity'?)",
        ),
        (
            "scene-vlm-base}}\n",
            "scene-vlm-base}}\n  other: {recorded: {source: vlm_uncertainty_bench, run: x, format: vub}}\n",
            "t.yaml:11:14: estimators[0]: perplexity needs token_logprobs, which the model 'other' cannot give",
        ),
        (
            "[perplexity]",
            "[perplexity, semantic_entropy: {version: [frequency, sum]}]\ninference: {draws: 1}",
            "t.yaml:11:20: inference.draws: semantic_entropy@version=frequency compares sampled answers; expected at least 2, got 1",
        ),
        (
            "{hf_vlm: {artifact: scene-vlm-base}}",
            "{recorded: {source: vlm_uncertainty_bench, run: x, format: vub}}\ninference: {confidence: verify}",
            "t.yaml:7:25: inference.confidence: `verify` asks every model to verify its answers, which 'base' (recorded) cannot "
            "(use `sequence`)",
        ),
        ("  base:", "  scenes:", "t.yaml:6:3: models.scenes: the name 'scenes' is given to two of datasets, pairs, models and finetunes"),
        ("  base:", "  'a/b':", "t.yaml:6:"),
    ],
)
def test_each_mistake_says_where_what_and_what_to_do(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = problems(tmp_path, change(old, new))
    assert any(f.startswith(expected) for f in found), "\n".join(found)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    text = change("bins: 15", "bns: 15").replace("[rules]", "[ruels]").replace("test: 10", "test: ten")
    assert len(problems(tmp_path, text)) == 3


def test_a_list_of_values_is_a_product_axis(tmp_path: Path) -> None:
    text = change("ece: {bins: 15}", "ece: {bins: [10, 15], rows: [all, test]}").replace("test: 10", "test: [5, 10]")
    resolved = resolve(tmp_path, text)
    assert [r.label for r in resolved.perturbations] == ["blur@radius=2", "blur@radius=6"]
    assert [d.label for d in resolved.datasets] == ["scenes@test=10", "scenes@test=5"]
    assert [m.label for m in resolved.metrics if m.plugin.name == "ece"] == [
        "ece@bins=10,rows=all",
        "ece@bins=10,rows=test",
        "ece@bins=15,rows=all",
        "ece@bins=15,rows=test",
    ]


def test_conformal_settings_sweep_too(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, change("[lac, aps]}", "[lac], alpha: [0.05, 0.1], calibration: {fraction: [0.3, 0.5]}}"))
    assert [c.label for c in resolved.conformal] == [
        "half@alpha=0.05,fraction=0.3",
        "half@alpha=0.05,fraction=0.5",
        "half@alpha=0.1,fraction=0.3",
        "half@alpha=0.1,fraction=0.5",
    ]


def test_how_a_number_is_written_is_no_content(tmp_path: Path) -> None:
    def args(text: str) -> object:
        r = resolve(tmp_path, text)
        return [(x.label, repr(x.args)) for x in (*r.metrics, *r.perturbations)]

    assert args(GOOD) == args(change("bins: 15", "bins: 15.0")) == args(change("[2, 6]", "[2.0, 6.0]"))


def test_defaults_are_spelled_out_and_params_yaml_fills_in(tmp_path: Path) -> None:
    resolved = resolve(tmp_path, GOOD)
    assert resolved.seed == 7
    (model,) = resolved.models
    assert model.ref.args["dtype"] == "float32"
    assert model.ref.args["artifact"] == model.source == "registry/data/scene-vlm-base"
    assert next(m for m in resolved.metrics if m.plugin.name == "ece").args["bins"] == 15


def test_extends_reports_places_in_the_right_file(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(GOOD.replace("bins: 15", "bns: 15"))
    (tmp_path / "v.yaml").write_text("extends: t\nname: v\nseed: x\n")
    with pytest.raises(SpecError) as caught:
        resolve_file(tmp_path / "v.yaml", tmp_path, RunWide(default="t"))
    (tmp_path / "v.yaml").write_text("extends: t\nname: v\n")
    assert str(caught.value) == "v.yaml:3:7: seed: expected a whole number, got the text 'x'"
    with pytest.raises(SpecError) as caught:
        resolve_file(tmp_path / "v.yaml", tmp_path, RunWide(default="t"))
    assert str(caught.value).startswith("t.yaml:15:11: metrics[1].ece.bns: ece has no parameter 'bns'")


def test_what_estimators_need_follows_from_their_arguments(tmp_path: Path) -> None:
    """A model is refused for what an estimator reads with its own arguments, not for what it might read with others."""
    text = change("{hf_vlm: {artifact: scene-vlm-base}}", "{recorded: {source: vlm_uncertainty_bench, run: x, format: vub}}")
    asked = "[lexical_similarity, pointwise_mutual_information: {without: [image, both]}, semantic_entropy]"
    found = [p for p in problems(tmp_path, text.replace("[perplexity]", asked)) if ": estimators[" in p]
    assert [(f.split("estimators[")[1][0], f.split(" needs ")[1].split(", which")[0]) for f in found] == [
        ("0", "draws, text"),
        ("1", "logprobs_without_both, token_logprobs"),
        ("1", "logprobs_without_image, token_logprobs"),
        ("2", "draws, text, token_logprobs"),
    ]


def test_metrics_bring_those_without_which_they_mislead(tmp_path):
    text = change(
        "  - auroc\n", "  - best_f1\n  - uncertainty_reflection_rate\n  - hallucination_change_correlation: {only_clean_correct: true}\n"
    )
    found = {ref.label: ref.args for ref in resolve(tmp_path, text).metrics}
    assert {"best_f1_floor", "uncertainty_tie_rate"} <= set(found)
    assert found["hallucination_rate@only_clean_correct=true"] == {"only_clean_correct": True, "right_from": 0.5}
    both = text.replace("  - best_f1\n", "  - best_f1\n  - best_f1_floor\n  - hallucination_rate: {only_clean_correct: [true, false]}\n")
    labels = [ref.label for ref in resolve(tmp_path, both).metrics]
    assert sorted(labels) == labels and len(set(labels)) == len(labels)
    assert sum(label.startswith("hallucination_rate") for label in labels) == 2


def test_nothing_to_compare_with_the_clean_inputs(tmp_path):
    text = change("  - auroc\n", "  - hallucination_rate\n").replace("perturbations:\n  - blur: {radius: [2, 6]}\n", "")
    assert problems(tmp_path, text) == [
        "t.yaml:14:5: metrics[2]: hallucination_rate compares perturbed inputs with clean ones, "
        "and this spec has no perturbations (add `perturbations:`)"
    ]


def test_a_perturbation_that_a_model_writes_is_called_as_the_spec_names_it(tmp_path: Path) -> None:
    text = GOOD.replace(
        "  - blur: {radius: [2, 6]}", "  - inv: {generator: {openai: {model: m}}}\n  - sbj: {generator: [rules, hf: {artifact: llm}]}"
    )
    labels = [p.label for p in resolve(tmp_path, text).perturbations]
    assert labels == ["inv@generator=openai(model=m)", "sbj@generator=hf(artifact=llm)", "sbj@generator=rules"]
