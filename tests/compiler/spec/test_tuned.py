"""Models that are made: what they are loaded with, what lies beneath an adapter, and `SPEC:MODEL`, a model of another spec."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file
from tests.support.checks.other_versions import raised

HEAD = """\
qualm: 1
name: {name}
datasets:
  scenes: {{card: synthetic_scenes, train: 10, test: 10, evaluate: true}}
judges: [rules]
metrics: [accuracy]
"""
MAKES = """\
models:
  base: {hf_vlm: {artifact: scene-vlm-base, dtype: bfloat16}}
finetunes:
  tuned: {sft: {base: base, train: [scenes]}}
  whole: {sft: {base: base, train: [scenes], tune: full}}
  again: {dpo: {base: tuned, train: [scenes], tune: {lora: {r: 4}}}}
"""
BASE, TUNED = "registry/data/scene-vlm-base", "results/t/models/tuned"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/t.yaml").write_text(HEAD.format(name="t") + MAKES)
    return tmp_path


def plan(root: Path, name: str, text: str = "") -> Plan:
    path = root / f"specs/{name}.yaml"
    if text:
        path.write_text(HEAD.format(name=name) + text)
    return make_plan(resolve_file(path, root, RunWide(default="t")))


def problems(root: Path, name: str, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        plan(root, name, text)
    return [str(p) for p in caught.value.problems]


def test_the_base_s_plugin_and_arguments_are_parameters_of_the_fine_tune(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = plan(specs, "t").stage("finetune-tuned")
    assert stage.inputs["models"] == {"base": BASE} and BASE in stage.deps
    base = stage.params["models"]["base"]
    assert base["plugin"] == "hf_vlm" and base["args"]["artifact"] == BASE and base["args"]["dtype"] == "bfloat16"
    raised(monkeypatch, "answers", "training", "variants")
    assert plan(specs, "t").stage("finetune-tuned").engine == {"answers": 2, "training": 2}


def test_a_tuned_model_keeps_the_dtype_and_an_adapter_needs_what_lies_beneath(specs: Path) -> None:
    made = plan(specs, "t")
    tuned = made.stage("infer-tuned-scenes")
    assert tuned.inputs["model"] == TUNED and {TUNED, BASE} <= set(tuned.deps)
    assert tuned.params["model"]["args"]["artifact"] == TUNED and tuned.params["model"]["args"]["dtype"] == "bfloat16"
    assert BASE not in made.stage("infer-whole-scenes").deps
    again = made.stage("infer-again-scenes")
    assert {"results/t/models/again", TUNED, BASE} <= set(again.deps)
    assert made.stage("finetune-again").inputs["models"] == {"tuned": TUNED}
    assert {TUNED, BASE} <= set(made.stage("finetune-again").deps)
    assert made.artifacts["again"] == "results/t/models/again"


def test_a_model_of_another_spec(specs: Path) -> None:
    made = plan(
        specs,
        "u",
        'models:\n  other: {hf_vlm: {artifact: "t:again"}}\n  on_top: {hf_vlm: {artifact: scene-vlm-base, adapter: "t:tuned"}}\n',
    )
    other = made.stage("infer-other-scenes")
    assert other.inputs["model"] == "results/t/models/again" and {"results/t/models/again", TUNED, BASE} <= set(other.deps)
    on_top = made.stage("infer-on_top-scenes")
    assert on_top.params["model"]["args"]["adapter"] == TUNED and {TUNED, BASE} <= set(on_top.deps)


def test_a_fine_tune_begins_from_a_model_of_another_spec(specs: Path) -> None:
    text = 'models:\n  other: {hf_vlm: {artifact: "t:tuned"}}\nfinetunes:\n  more: {sft: {base: other, train: [scenes]}}\n'
    stage = plan(specs, "u", text).stage("finetune-more")
    assert stage.inputs["models"] == {"other": TUNED} and {TUNED, BASE} <= set(stage.deps)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t:tuend", "models.m.hf_vlm: 't:tuend': specs/t.yaml makes no model 'tuend' (did you mean 'tuned'?)"),
        ("v:tuned", "models.m.hf_vlm: 'v:tuned': there is no specs/v.yaml"),
        ("u:m", "models.m.hf_vlm: 'u:m': u would read models of each other, in a circle"),
        ("t:", "models.m.hf_vlm.artifact: expected a name of A-Z, a-z, 0-9, '_', '-' and '.', beginning with a letter or digit, at most"),
    ],
)
def test_a_model_that_no_spec_makes(specs: Path, name: str, expected: str) -> None:
    (found,) = problems(specs, "u", f'models:\n  m: {{hf_vlm: {{artifact: "{name}"}}}}\n')
    assert expected in found


def test_two_specs_in_a_circle(specs: Path) -> None:
    (specs / "specs/t.yaml").write_text((HEAD.format(name="t") + MAKES).replace("scene-vlm-base", '"u:more"'))
    text = 'models:\n  other: {hf_vlm: {artifact: "t:tuned"}}\nfinetunes:\n  more: {sft: {base: other, train: [scenes]}}\n'
    (found,) = problems(specs, "u", text)
    assert "in a circle" in found


def test_mistakes_of_the_other_spec_are_said_to_be_its_own(specs: Path) -> None:
    (specs / "specs/t.yaml").write_text((HEAD.format(name="t") + MAKES).replace("train: [scenes]}", "trian: [scenes]}"))
    (found,) = problems(specs, "u", 'models:\n  m: {hf_vlm: {artifact: "t:tuned"}}\n')
    assert "specs/t.yaml has errors of its own: " in found and "qualm validate t" in found


def test_a_sweep_is_not_one_model_to_begin_from(specs: Path) -> None:
    text = MAKES.replace("dtype: bfloat16", "dtype: [bfloat16, float32]").splitlines(keepends=True)[:4]
    (found,) = problems(specs, "w", "".join(text))
    assert "finetunes.tuned: 'base' is a sweep over several models; a fine-tune begins from one" in found


def test_models_tuned_from_each_other_are_an_error(specs: Path) -> None:
    text = "finetunes:\n  a: {sft: {base: b, train: [scenes]}}\n  b: {sft: {base: a, train: [scenes]}}\n"
    (found,) = problems(specs, "w", text)
    assert "in a circle" in found
