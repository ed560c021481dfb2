"""The spec's `probes:` section: what it resolves to, what is planned, what is refused."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from tests.compiler.spec.resolving import problems, resolve

SPEC = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models:
  base: {hf_vlm: {artifact: scene-vlm-base}}
  other: {hf_vlm: {artifact: scene-vlm-base}}
judges: [rules]
estimators: [semantic_entropy]
probes:
  knows: {p_ik: {layer: [middle, last]}, of: [base]}
  unsure: {semantic_entropy_probe: , fit: half, transfer: false}
metrics: [accuracy, auroc]
"""


def test_every_probe_with_its_models_and_defaults(tmp_path: Path) -> None:
    found = {p.label: p for p in resolve(tmp_path, SPEC).probes}
    assert list(found) == ["knows@layer=last", "knows@layer=middle", "unsure"]
    assert found["knows@layer=middle"].of == ("base",) and found["unsure"].of == ("base", "other")
    assert found["unsure"].as_json() == {
        "label": "unsure",
        "plugin": "semantic_entropy_probe",
        "args": {"of": "semantic_entropy", "layer": "middle", "place": "answer_last", "decay": 1.0},
        "of": ["base", "other"],
        "fit": "half",
        "transfer": False,
        "seed": 42,
    }
    assert found["unsure"].target == "semantic_entropy" and found["knows@layer=last"].target is None


def test_models_are_asked_for_what_their_probes_read_and_for_what_these_learn_from(tmp_path: Path) -> None:
    plan = make_plan(resolve(tmp_path, SPEC))
    base, other = (plan.stage(f"infer-{name}-scenes").params for name in ("base", "other"))
    inside = [f"hidden_states/{layer}" for layer in ("-1/prompt_last", "0.5/answer_last", "0.5/prompt_last")]
    assert [word for word in base["needs"] if "/" in word] == inside and base["also"] == ["val"]
    assert [word for word in other["needs"] if "/" in word] == ["hidden_states/0.5/answer_last"] and "also" not in other
    probe = plan.stage("probe")
    assert set(probe.inputs) == {"datasets", "generations", "internals", "judgements", "uncertainties"}
    assert plan.stage("score").inputs["probe_values"] == probe.outputs["probe_values"]


def test_a_probe_is_enough_for_metrics_of_uncertainty(tmp_path: Path) -> None:
    text = SPEC.replace("estimators: [semantic_entropy]\n", "").replace(
        "  unsure: {semantic_entropy_probe: , fit: half, transfer: false}\n", ""
    )
    plan = make_plan(resolve(tmp_path, text))
    assert "draws" not in plan.stage("infer-base-scenes").params and "uncertainties" not in plan.stage("probe").inputs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("test: 10}", "test: 10, splits: [val, test]}", "it learns from answers to split 'val', which is scored for scenes"),
        ("of: [base]}", "of: [bass]}", "expected a model of this spec, got 'bass'"),
        ("estimators: [semantic_entropy]", "estimators: [perplexity]", "there is no 'semantic_entropy'"),
        ("judges: [rules]\n", "", "learns which answers are wrong, and this spec has no judges"),
        ("  unsure: {", "  semantic_entropy: {", "an estimator of this spec is called 'semantic_entropy' too"),
        ("layer: [middle, last]", "layer: top", "expected a layer as"),
        ("fit: half", "fit: test", "expected one of val or half"),
        ("{p_ik: ", "{p_iq: ", "p_iq"),
    ],
)
def test_what_cannot_be_is_said_where_it_stands(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SPEC
    found = problems(tmp_path, SPEC.replace(old, new))
    assert any(message in problem and "t.yaml:" in problem for problem in found), found


@pytest.mark.parametrize(
    ("perturbations", "message"),
    [
        ("", "bicr compares with answers under 'dark', which is no perturbation here"),
        ("perturbations: [blur: {radius: 2}]\n", "bicr compares with answers under 'dark', which is no perturbation here"),
        ("perturbations: [dark: {factor: [0, 0.5]}]\n", "bicr compares with one variant, and 'dark' names dark@factor="),
        ("perturbations: [dark: {factor: 0}]\n", ""),
    ],
)
def test_a_probe_that_compares_needs_one_variant_to_compare_with(tmp_path: Path, perturbations: str, message: str) -> None:
    text = SPEC.replace("judges: [rules]\n", f"judges: [rules]\n{perturbations}").replace("{p_ik: {layer: [middle, last]}", "{bicr: ")
    if message:
        assert any(message in problem and "t.yaml:" in problem for problem in problems(tmp_path, text))
    else:
        (use,) = (p for p in resolve(tmp_path, text).probes if p.plugin.name == "bicr")
        assert use.beside == "dark"


def test_a_probe_that_compares_learns_from_nothing_that_is_scored(tmp_path: Path) -> None:
    text = SPEC.replace("judges: [rules]\n", "judges: [rules]\nperturbations: [dark: {factor: 0}]\n")
    text = text.replace("{p_ik: {layer: [middle, last]}", "{bicr: ").replace("test: 10}", "test: 10, splits: [val, test]}")
    assert any("it learns from answers to split 'val', which is scored for scenes" in problem for problem in problems(tmp_path, text))


def test_a_server_gives_no_hidden_states(tmp_path: Path) -> None:
    served = "  other: {openai: {base_url: 'http://127.0.0.1:1/v1', model: x}}\n"
    text = SPEC.replace("  other: {hf_vlm: {artifact: scene-vlm-base}}\n", served)
    assert any("reads hidden_states, which the model 'other' cannot give" in problem for problem in problems(tmp_path, text))
