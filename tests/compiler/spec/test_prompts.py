"""`prompt:` of a spec, dataset and model: what stages are given, and every mistake at its place."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path

import pytest

from qualm.compiler.plan.make import make_plan
from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.resolve import resolve_file

SPEC = """\
qualm: 1
name: t
datasets:
  a: {card: synthetic_scenes%s}
models:
  m: {openai: {model: m, base_url: "http://127.0.0.1:9/v1"}%s}
judges: [rules]
metrics: [accuracy]
prompt: %s
"""


@pytest.fixture(autouse=True)
def project(tmp_path):
    (tmp_path / "specs/prompts").mkdir(parents=True)
    (tmp_path / "specs/prompts/terse.md").write_text("<!-- ours -->\nQ: {question}\n{options}\nA:")
    (tmp_path / "specs/prompts/typo.md").write_text("{question}\n{optoins}")
    lines = [{"question": f"Is {n} even?", "answer": "yes"} for n in (2, 4)]
    (tmp_path / "specs/prompts/two.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with chdir(tmp_path):
        yield tmp_path


def stages(project, prompt, dataset="", model=""):
    path = project / "t.yaml"
    path.write_text(SPEC % (dataset, model, prompt))
    resolved = resolve_file(path, project, RunWide(default="t"))
    return resolved, {s.name: s for s in make_plan(resolved).stages if s.kind == "infer"}


def prompt_of(project, prompt, **more):
    (stage,) = stages(project, prompt, **more)[1].values()
    return stage.params.get("prompt")


def problems(project, prompt, **more):
    with pytest.raises(SpecError) as caught:
        stages(project, prompt, **more)
    return [str(p) for p in caught.value.problems]


def test_without_a_prompt_the_stage_has_none(project):
    assert prompt_of(project, "") is None


def test_a_file_is_part_of_the_stage_and_of_what_the_plan_depends_on(project):
    assert prompt_of(project, "terse") == {"template": "Q: {question}\n{options}\nA:"}
    resolved, _ = stages(project, "{template: terse, system: Be brief.}")
    assert project / "specs/prompts/terse.md" in resolved.files
    assert "specs/prompts/terse.md" in make_plan(resolved, project).sources


def test_a_model_overrides_a_dataset_which_overrides_the_spec(project):
    found = prompt_of(
        project, "{system: spec, template: '{question}', answer_format: short}",
        dataset=", prompt: {system: dataset, template: 'D {question}'}", model=", prompt: {system: model}",
    )  # fmt: skip
    assert found == {"system": "model", "template": "D {question}", "answer_format": "short"}


def test_a_list_makes_a_row_for_each_prompt(project):
    resolved, by_name = stages(project, "[terse, {as: json, answer_format: json}]", model=", prompt: {system: Hi}")
    assert [m.ref.label for m in resolved.models] == ["m@prompt=terse", "m@prompt=json"]
    assert [s.params["prompt"] for s in by_name.values()] == [
        {"template": "Q: {question}\n{options}\nA:", "system": "Hi"}, {"answer_format": "json", "system": "Hi"},
    ]  # fmt: skip
    assert len({str(s.outputs) for s in by_name.values()}) == 2


def test_confidence_targets_are_a_list_of_prompts(project):
    _, by_name = stages(project, "[{as: low, confidence_target: 0}, {as: high, confidence_target: 0.9, answer_format: free}]")
    found = [stage.params["prompt"] for stage in by_name.values()]
    assert found == [{"confidence_target": 0.0}, {"confidence_target": 0.9, "answer_format": "free"}]


def test_a_model_s_own_list_replaces_the_spec_s(project):
    resolved, _ = stages(project, "[terse, {as: b, system: Hi}]", model=", prompt: [terse, {as: c, answer_format: short}]")
    assert [(m.ref.label, m.prompt, m.own_prompt) for m in resolved.models] == [
        ("m@prompt=terse", {}, {"template": "Q: {question}\n{options}\nA:"}), ("m@prompt=c", {}, {"answer_format": "short"}),
    ]  # fmt: skip


def test_a_model_s_list_overrides_keys_of_the_spec_s_one_prompt(project):
    resolved, by_name = stages(project, "{system: Hi, answer_format: free}", model=", prompt: [terse, {as: c, answer_format: short}]")
    assert [m.ref.label for m in resolved.models] == ["m@prompt=terse", "m@prompt=c"]
    assert [s.params["prompt"] for s in by_name.values()] == [
        {"template": "Q: {question}\n{options}\nA:", "system": "Hi", "answer_format": "free"}, {"system": "Hi", "answer_format": "short"},
    ]  # fmt: skip


def test_examples_of_a_file_a_split_and_the_spec(project):
    assert prompt_of(project, "{examples: {file: two.jsonl, shots: 1}}") == {
        "examples": {"written": [{"question": "Is 2 even?", "answer": "yes"}]}
    }
    assert prompt_of(project, "{examples: {split: train, shots: 3}}") == {"examples": {"split": "train", "shots": 3}}
    (project / "a.png").write_bytes(b"")
    (stage,) = stages(project, "{examples: [{question: What?, answer: red, images: [a.png]}]}")[1].values()
    assert stage.inputs["examples"] == {"a.png": "a.png"} and "a.png" in stage.deps


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("'{question} {optoins}'", "t.yaml:9:9: prompt: unknown placeholder {optoins} (did you mean 'options'?)"),
        ("typo", "prompt: specs/prompts/typo.md: unknown placeholder {optoins} (did you mean 'options'?)"),
        ("tersee", "expected a text with {question}, or a file specs/prompts/NAME.md, got 'tersee' (did you mean 'terse'?)"),
        ("{template: 'Hello there'}", "t.yaml:9:20: prompt.template: expected {question} once in the template, found it no times"),
        ("{templat: x}", "prompt.templat: unknown key 'templat' (did you mean 'template'?)"),
        ("{answer_format: leter}", "expected free, letter, short, json or {json: SCHEMA}, got the text 'leter' (did you mean 'letter'?)"),
        ("{answer_format: {json: {type: object, properties: {reply: {}}}}}", "with the required property `answer`"),
        ("{confidence_target: 1}", "prompt.confidence_target: expected a number < 1.0, got 1"),
        ("{examples: {shots: 2}}", "prompt.examples: expected `split` or `file`, one of them"),
        ("{examples: {split: train}}", "expected `shots`, the number of examples that are drawn from the split"),
        ("{examples: {file: two.jsonl, shots: 3}}", "prompt.examples.shots: expected at most the 2 examples of two.jsonl, got 3"),
        ("{examples: {file: none.jsonl}}", "prompt.examples.file: expected a file specs/prompts/NAME.jsonl"),
        ("{examples: [{question: What?, answer: a, images: [no.png]}]}", "example 1: no image 'no.png' in the project"),
        ("[terse, {system: Hi}]", "t.yaml:9:17: prompt[1]: expected a name of this prompt in a list (add `as: NAME`)"),
        ("[terse, terse]", "'terse' is named twice"),
        ("[terse]", "expected at least two prompts in a list, got 1"),
    ],
)  # fmt: skip
def test_mistakes(project, prompt, expected):
    assert any(expected in found for found in problems(project, prompt)), problems(project, prompt)


def test_a_dataset_has_no_sweep_and_recorded_answers_no_prompt(project):
    (found,) = problems(project, "", dataset=", prompt: [terse, typo]")
    assert "a sweep over prompts belongs to the spec or to a model" in found


PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/change_the_prompt.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_blocks_of_the_page_are_valid(project, block):
    path = project / "t.yaml"
    head = {
        "qualm": "1",
        "name": "t",
        "datasets": "\n  a: {card: synthetic_scenes}",
        "models": '\n  m: {openai: {model: m, base_url: "http://h/v1"}}',
    }
    path.write_text("\n".join([*(f"{key}: {text}" for key, text in head.items() if f"{key}:" not in block.splitlines()), block]))
    assert resolve_file(path, project, RunWide(default="t")).models


def test_there_are_blocks():
    assert len(BLOCKS) >= 6
