"""A spec's mistakes against plugins, other sections and itself: exact text, exact place, all at once."""

from pathlib import Path

import pytest

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from tests.compiler.spec.resolving import GOOD, change, problems, resolve


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
            "expected a name of A-Z, a-z, 0-9, '_', '-' and '.', beginning with a letter or digit, at most 64, got the text '../../etc'",
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
        ("[perplexity]", "[perplexity, perplexity]", "t.yaml:10:26: estimators[1]: 'perplexity' is named twice (name each once)"),
        (
            "[rules]",
            "[rules, rules: {match: exact}]",
            "t.yaml:9:17: judges[1]: 'rules' is named twice (write rules once, with a list of values for each parameter that differs)",
        ),
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
            "t.yaml:15:5: metrics[1]: vqa_accuracy reads ratings by the judge 'vqa', which this spec lacks (add `judges: [vqa]`)",
        ),
        (
            "  - accuracy\n",
            "  - accuracy\n  - group_accuracy: {of: rated_by_lave}\n",
            "t.yaml:15:5: metrics[1]: group_accuracy reads ratings by the judge 'lave', which this spec lacks (add `judges: [lave]`)",
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
            "(leave it out for this model: `leave_out: [perplexity]` beside recorded; models of hf_vlm, openai, vllm can)",
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
            "t.yaml:6:57: models.base.leave_out: expected a list, got the text 'perplexity'",
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
            "(use `sequence`, or `confidence: none` beside the model",
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
    assert str(caught.value) == (
        "t.yaml:15:11: metrics[1].ece.bns: ece has no parameter 'bns' (did you mean 'bins'?)\n"
        "v.yaml:3:7: seed: expected a whole number, got the text 'x'"
    )
    with pytest.raises(SpecError) as caught:
        resolve_file(tmp_path / "v.yaml", tmp_path, RunWide(default="t"))
    assert str(caught.value).startswith("t.yaml:15:11: metrics[1].ece.bns: ece has no parameter 'bns'")


REVERSED = """\
qualm: 1
name: t
datasets:
  z: {card: synthetic_scenes, test: 4}
  m: {card: synthetic_scenes, test: [6, 5]}
  a: {card: synthetic_scenes, format: multiple_choice, test: 4}
  f: {card: synthetic_scenes, train: 4}
models:
  w: {hf_vlm: {artifact: x}}
  c: {hf_vlm: {artifact: x}}
finetunes:
  y: {sft: {base: w, train: [f]}}
  b: {sft: {base: c, train: [f]}}
perturbations: [typos, blur: {radius: [6, 2]}]
judges: [rules, first_character]
estimators: [perplexity, mean_token_entropy]
calibrators:
  z: {methods: [platt]}
  a: {methods: [temperature]}
conformal:
  z: {scores: [lac], alpha: [0.2, 0.1]}
  a: {scores: [aps]}
abstentions:
  z: {thresholding: , of: [w]}
  a: {risk_control: {alpha: [0.2, 0.1]}, of: [w, c]}
probes:
  z: {p_ik: , of: [w, c], fit: half}
  a: {p_ik: , of: [c], fit: half}
metrics: [set_size, ece, confidence_weighted_accuracy, auroc, accuracy]
"""


def test_all_of_a_kind_is_in_the_order_of_its_labels_however_the_spec_has_it(tmp_path: Path) -> None:
    """But judges, of which the first is the one that is scored by."""
    found = resolve(tmp_path, REVERSED)
    labels = {name: [getattr(use, "ref", use).label for use in getattr(found, name)] for name in (
        "datasets", "models", "finetunes", "perturbations", "estimators", "calibrators", "conformal", "abstentions", "probes", "metrics",
        "evaluated",
    )}  # fmt: skip
    assert {name: of for name, of in labels.items() if of != sorted(of) or len(of) < 2} == {}
    assert [judge.label for judge in found.judges] == ["rules", "first_character"]
    assert [use.of for use in (*found.abstentions, *found.probes)] == [("c", "w"), ("c", "w"), ("w",), ("c",), ("c", "w")]
