"""Prompt files: named by a parameter, known when the spec is read, and a dependency of the stages that use them."""

from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.plan.plan import Plan
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file

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
      - from_caption: {dataset: scenes, category: epistemic/knowledge, generator: {openai: {model: m}}, prompt: ambiguity}
"""


def make(tmp_path: Path, text: str = SPEC) -> Plan:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    return make_plan(resolve_file(path, tmp_path, RunWide(default="t")))


def test_a_prompt_is_a_path_and_a_dependency(tmp_path: Path) -> None:
    stage = make(tmp_path).stage("pair-ours-from_caption")
    assert stage.params["args"]["prompt"] == "specs/prompts/ambiguity.md"
    assert "specs/prompts/ambiguity.md" in stage.deps
    assert not [path for path in stage.deps if path.endswith(".py")], "our code counts by its versions in a stage that asks a model"
    assert stage.params["about"]["definition"] == "Facts."


def test_our_own_prompts_are_dependencies_where_none_is_named(tmp_path: Path) -> None:
    stage = make(tmp_path, SPEC.replace(", prompt: ambiguity", "")).stage("pair-ours-from_caption")
    assert stage.params["args"]["prompt"] is None
    assert {f"specs/prompts/{name}.md" for name in ("knowledge", "complexity", "temporal", "ambiguity")} <= set(stage.deps)


def test_a_prompt_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        make(tmp_path, SPEC.replace("ambiguity}", "ambiguous}"))
    (problem,) = caught.value.problems
    assert "prompt: expected the name of a file specs/prompts/NAME.md (there are: " in str(problem)
    assert "got the text 'ambiguous'" in str(problem)


def test_a_key_is_no_parameter(tmp_path: Path) -> None:
    """What opens a server stands in nobody's spec."""
    with pytest.raises(SpecError, match="openai has no parameter 'key'"):
        make(tmp_path, SPEC.replace("{model: m}", "{model: m, key: MY_KEY}"))


PRINTED = """\
qualm: 1
name: t
datasets:
  scenes: {card: synthetic_scenes, test: 10}
models: {base: {hf_vlm: {artifact: x}}}
perturbations: [inv: {generator: {openai: {model: m}}, prompt: paper/inv}]
"""


def test_a_prompt_that_a_paper_prints_is_the_user_s_to_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "specs" / "prompts"
    (folder / "paper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        make(tmp_path, PRINTED)
    (problem,) = caught.value.problems
    assert str(problem).endswith(
        "expected a file specs/prompts/paper/inv.md: put into it the text of VLM-UQBench (arXiv:2602.09214), appendix B.1, "
        "'Prompt for INV', and {question} where the question goes, got the text 'paper/inv'"
    )
    (folder / "paper" / "inv.md").write_text("As printed. {question}")
    (stage,) = [s for s in make(tmp_path, PRINTED).stages if s.kind == "perturb"]
    assert stage.params["args"]["prompt"] == "specs/prompts/paper/inv.md" and "specs/prompts/paper/inv.md" in stage.deps
    with pytest.raises(SpecError, match="paper/inv\\)"):
        make(tmp_path, PRINTED.replace("paper/inv", "mine"))
    with pytest.raises(SpecError, match="prompt"):
        make(tmp_path, PRINTED.replace("paper/inv", "../../x"))
