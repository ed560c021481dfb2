"""Prompt files: named by a parameter, known when the spec is read, and a dependency of the stages that use them."""

from pathlib import Path

import pytest

from compiler.errors import SpecError
from compiler.plan import Plan, make_plan
from compiler.resolve import resolve_file
from compiler.spec import RunWide

SPEC = """\
qualm: 1
name: t
taxonomy:
  epistemic: {knowledge: {definition: Facts., examples: [How old?]}}
datasets:
  scenes: {card: synthetic_scenes, test: 10}
pairs:
  ours:
    recipes:
      - from_caption: {dataset: scenes, category: epistemic/knowledge, generator: {openai: {model: m, key: null}}, prompt: ambiguity}
"""


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return make_plan(resolve_file(path, tmp_path, RunWide(default="t")))


def test_a_prompt_is_a_path_and_a_dependency(tmp_path: Path) -> None:
    stage = make(tmp_path).stage("pair-ours-from_caption")
    assert stage.params["args"]["prompt"] == "specs/prompts/ambiguity.md"
    assert "specs/prompts/ambiguity.md" in stage.deps
    assert "runners/generators/openai.py" in stage.deps
    assert "runners/generators/hf.py" not in stage.deps
    assert stage.params["about"]["definition"] == "Facts."


def test_our_own_prompts_are_dependencies_where_none_is_named(tmp_path: Path) -> None:
    stage = make(tmp_path, SPEC.replace(", prompt: ambiguity", "")).stage("pair-ours-from_caption")
    assert stage.params["args"]["prompt"] is None
    assert {f"specs/prompts/{name}.md" for name in ("knowledge", "complexity", "temporal", "ambiguity")} <= set(stage.deps)


def test_a_prompt_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        make(tmp_path, SPEC.replace("ambiguity}", "ambiguous}"))
    (problem,) = caught.value.problems
    assert "prompt: expected the name of a file specs/prompts/NAME.md (there are: ambiguity, complexity," in str(problem)
    assert "got the text 'ambiguous'" in str(problem)


def test_a_key_in_a_spec_is_no_key(tmp_path: Path) -> None:
    """Nothing of the environment reaches a stage's parameters."""
    stage = make(tmp_path, SPEC.replace("key: null", "key: MY_KEY")).stage("pair-ours-from_caption")
    assert stage.params["args"]["generator"]["args"]["key"] == "MY_KEY"


JUDGED = """\
qualm: 1
name: t
datasets: {scenes: {card: synthetic_scenes, test: 10}}
models: {base: {hf_vlm: {artifact: scene-vlm-base}}}
judges: [lave: {by: {hf: {artifact: my-llm}}}, rules]
metrics: [accuracy]
"""


def test_a_judge_s_model_and_prompts_are_dependencies(tmp_path: Path) -> None:
    stage = make(tmp_path, JUDGED).stage("judge")
    assert stage.inputs["artifacts"] == {"my-llm": "registry/data/my-llm"}
    assert stage.params["judges"][0]["args"]["by"] == {"plugin": "hf", "args": {"artifact": "registry/data/my-llm", "dtype": "float32"}}
    assert {
        "registry/data/my-llm",
        "runners/generators/hf.py",
        "specs/prompts/lave_refusal.md",
        "specs/prompts/lave_rating_first.md",
    } <= set(stage.deps)
    alone = make(tmp_path, JUDGED.replace("lave: {by: {hf: {artifact: my-llm}}}, ", "")).stage("judge")
    assert not [d for d in alone.deps if "generators" in d or "prompts/" in d]
