"""The `models:` section: labels of sweeps, what stands beside the plugin, and the models that fine-tunes make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualm.compiler.spec.errors import SpecError
from qualm.compiler.spec.language import RunWide
from qualm.compiler.spec.models import chat_template
from qualm.compiler.spec.resolve import resolve_file
from qualm.compiler.spec.resolved import ModelUse
from qualm.runners.runtime.server_presets import PRESETS

HEAD = "qualm: 1\nname: t\ndatasets:\n  scenes: {card: synthetic_scenes, train: 10, test: 10}\nestimators: [perplexity]\n"
"""Five lines, before `models:`."""


def resolve(root: Path, text: str, **run_wide: str) -> dict[str, ModelUse]:
    path = root / "t.yaml"
    path.write_text(HEAD + text)
    return {use.ref.label: use for use in resolve_file(path, root, RunWide.model_validate({"default": "t", **run_wide})).models}


def problems(root: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        resolve(root, text)
    return [str(p) for p in caught.value.problems]


def test_models_are_in_the_order_of_their_labels(tmp_path: Path) -> None:
    uses = resolve(tmp_path, "models:\n  z: {hf_vlm: {artifact: [q, p]}}\n  m: {openai: {model: x, logprobs: 5}}\n")
    assert list(uses) == ["m", "z@artifact=p", "z@artifact=q"]
    assert [use.source for use in uses.values()] == [None, "registry/data/p", "registry/data/q"]
    assert uses["z@artifact=p"].ref.args["artifact"] == "registry/data/p" and uses["m"].ref.args["model"] == "x"


def test_facts_and_estimators_left_out_stand_beside_the_plugin(tmp_path: Path) -> None:
    beside = "about: {family: scenes, billions: 0.5, chat: false}, leave_out: [perplexity]"
    uses = resolve(tmp_path, f"models:\n  a: {{hf_vlm: {{artifact: x}}, {beside}}}\n  b: {{hf_vlm: {{artifact: x}}}}\n")
    assert uses["a"].about == {"family": "scenes", "billions": 0.5, "chat": False}
    assert uses["a"].entry.leave_out == ["perplexity"]
    assert (uses["b"].about, uses["b"].entry.leave_out) == ({}, None)
    assert not {"about", "leave_out"} & uses["a"].ref.args.keys()


def test_a_model_without_confidence_and_one_that_is_asked_a_part(tmp_path: Path) -> None:
    verify = "inference: {confidence: verify}\n"
    beside = "confidence: none, per_category: 100, leave_out: [perplexity]"
    uses = resolve(tmp_path, f"models:\n  a: {{openai: {{model: x}}, {beside}}}\n{verify}")
    assert (uses["a"].entry.confidence, uses["a"].entry.per_category) == ("none", 100) and "p_yes" not in uses["a"].gives
    assert resolve(tmp_path, "models:\n  a: {hf_vlm: {artifact: x}, per_category: 2}\n")["a"].entry.per_category == 2
    plain = resolve(tmp_path, "models:\n  a: {hf_vlm: {artifact: x}, confidence: , per_category: }\n")["a"]
    assert (plain.entry.confidence, plain.entry.per_category) == (None, None)


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ("confidence: low", "expected 'none', got the text 'low'"),
        ("confidence: none", "only with `inference: {confidence: verify}`; else confidence is read off the answer's own tokens"),
        ("per_category: 1", "expected a number >= 2, got 1"),
        ("per_category: all", "expected a whole number, got the text 'all'"),
    ],
)
def test_mistakes_about_what_a_model_is_asked(tmp_path: Path, beside: str, expected: str) -> None:
    (found,) = problems(tmp_path, f"models:\n  a: {{hf_vlm: {{artifact: x}}, {beside}}}\n")
    assert f"models.a.{beside.partition(':')[0]}: {expected}" in found


def test_nothing_beside_a_key_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    use = resolve(tmp_path, "models:\n  a:\n    hf_vlm: {artifact: x}\n    about:\n    leave_out:\n")["a"]
    assert (use.about, use.entry.leave_out) == ({}, None)


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ("about: {famly: x}", ["t.yaml:7:38: models.a.about.famly: unknown key 'famly' (did you mean 'family'?)"]),
        ("about: {billions: many}", ["t.yaml:7:48: models.a.about.billions: expected a number, got the text 'many'"]),
        ("about: 3", ["t.yaml:7:37: models.a.about: expected a mapping, got 3"]),
        (
            "leave_out: {perplexity: 1}",
            ["t.yaml:7:41: models.a.leave_out: expected a list, got a mapping {'perplexity': 1}"],
        ),
    ],
)
def test_mistakes_beside_the_plugin(tmp_path: Path, beside: str, expected: list[str]) -> None:
    assert problems(tmp_path, f"models:\n  a: {{hf_vlm: {{artifact: x}}, {beside}}}\n") == expected


def test_a_list_with_something_else_than_names_in_it(tmp_path: Path) -> None:
    found = problems(tmp_path, "models:\n  a: {hf_vlm: {artifact: x}, leave_out: [perplexity, 3]}\n")
    assert found[0] == "t.yaml:7:54: models.a.leave_out[1]: expected text, got 3 (text in quotes, as in '3' or 'no')"


def test_a_folder_that_is_here_is_looked_into(tmp_path: Path) -> None:
    text = "models:\n  a: {hf_vlm: {artifact: mine}}\n"
    folder = tmp_path / "registry" / "data" / "mine"
    resolve(tmp_path, text)  # it may be in the cache, or on a remote
    folder.mkdir(parents=True)
    resolve(tmp_path, text)
    (folder / "config.json").write_text('{"vision_config": {}}')
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    (fault,) = problems(tmp_path, text)
    assert fault.startswith("t.yaml:7:26: models.a.hf_vlm.artifact: registry/data/mine: expected a processor (processor_config.json or ")
    (folder / "processor_config.json").write_text("{}")
    (fault,) = problems(tmp_path, text)
    assert fault.startswith(
        "t.yaml:7:26: models.a.hf_vlm.artifact: registry/data/mine: expected a chat template (chat_template.jinja), by "
    )
    resolve(tmp_path, text.replace("mine", "mine, template: '{{ messages }}'"))
    for name in ("processor_config.json", "chat_template.json"):
        (folder / name).write_text('{"chat_template": "{{ messages }}"}')
        resolve(tmp_path, text)
        (folder / name).write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    resolve(tmp_path, text)


def test_a_date_that_is_none_is_met_before_anything_runs(tmp_path: Path) -> None:
    (fault,) = problems(tmp_path, "models:\n  a: {hf_vlm: {artifact: mine, date: today}}\n")
    assert fault.startswith("t.yaml:7:38: models.a.hf_vlm.date: expected a date such as 2026-01-01, got 'today'")


def test_an_adapter_s_template_is_that_of_its_model(tmp_path: Path) -> None:
    folder = tmp_path / "registry" / "data" / "mine"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    resolve(tmp_path, "models:\n  a: {hf_vlm: {artifact: mine}}\n")


def test_thinking_without_tags_in_the_template_is_met_before_anything_runs(tmp_path: Path) -> None:
    text = "models:\n  a: {hf_vlm: {artifact: mine, thinking: true}}\n"
    folder = tmp_path / "registry" / "data" / "mine"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "processor_config.json"):
        (folder / name).write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (fault,) = problems(tmp_path, text)
    assert fault.startswith(
        "t.yaml:7:42: models.a.hf_vlm.thinking: the chat template shows no tags of thinking; name them: `thinking: {tags:"
    )
    assert problems(tmp_path, text.replace("true", "false")), "without tags there is no way to end it either"
    resolve(tmp_path, text.replace("true", '{tags: ["<t>", "</t>"]}'))
    (fault,) = problems(tmp_path, text.replace("true", '{tags: ["<t>", "</t>"], switch: reason}'))
    assert "models.a.hf_vlm.thinking: switch: the chat template has no variable 'reason'" in fault
    (folder / "chat_template.jinja").write_text("{{ messages[0].content.split('</think>')[-1] }}")
    resolve(tmp_path, text)


def test_thinking_beside_a_template_of_the_spec(tmp_path: Path) -> None:
    hub = "models:\n  a: {hf_vlm: {hub: o/m, revision: 0123456789012345678901234567890123456789, thinking: true%s}}\n"
    resolve(tmp_path, hub % "")
    assert len(problems(tmp_path, hub % ', template: "{{ messages }}"')) == 1
    resolve(tmp_path, hub % ', template: "{{ messages }}</think>"')


TUNED = """\
models:
  base: {hf_vlm: {artifact: x}}
finetunes:
  tuned: {sft: {base: base, train: [scenes]}}
  clip: {scratch_vlm: {train: [scenes]}}
"""


def test_what_fine_tunes_make_are_models(tmp_path: Path) -> None:
    uses = resolve(tmp_path, TUNED, dtype="float64")
    assert list(uses) == ["base", "clip", "tuned"]
    assert uses["tuned"].source == "results/t/models/tuned" == uses["tuned"].ref.args["artifact"]
    assert uses["tuned"].beneath == ("registry/data/x",) and uses["clip"].beneath == ()
    assert {use.ref.args["dtype"] for use in uses.values()} == {"float64"}


def test_a_tuned_model_has_every_parameter_of_what_loads_it(tmp_path: Path) -> None:
    uses = resolve(tmp_path, TUNED)
    tuned = uses["tuned"].ref
    assert tuned.plugin.name == "hf_vlm" and tuned.args.keys() == {p.name for p in tuned.plugin.parameters}
    assert uses["clip"].gives == uses["base"].gives


def test_every_name_that_is_swept_and_begun_from_is_told(tmp_path: Path) -> None:
    text = TUNED.replace("artifact: x", "artifact: [x, y]")
    message = "'base' is a sweep over several models; a fine-tune begins from one (name each value of the sweep as a model of its own)"
    assert problems(tmp_path, text) == [f"t.yaml:9:10: finetunes.tuned: {message}"]


def test_a_preset_is_spelled_out(tmp_path: Path) -> None:
    """It stands in the place of defaults, never of what is written; the preset itself is no part of the stage."""
    plain = resolve(tmp_path, "models:\n  a: {openai: {model: x, logprobs: 5}}\n")["a"]
    same = resolve(tmp_path, "models:\n  a: {openai: {preset: openai, model: x, logprobs: 5}}\n")["a"]
    assert same.ref.args == plain.ref.args and (same.preset, plain.preset) == (PRESETS["openai"], None)
    own = resolve(tmp_path, 'models:\n  a: {openai: {preset: vllm, model: x, logprobs: 50, base_url: "http://lab/v1", n: false}}\n')["a"]
    assert own.ref.args == {**plain.ref.args, "logprobs": 50, "base_url": "http://lab/v1", "n": False}
    swept = resolve(tmp_path, "models:\n  a: {openai: {preset: [ollama, llama_cpp], model: x, logprobs: 5}}\n")
    assert {label: (use.ref.args["base_url"], use.ref.args["n"]) for label, use in swept.items()} == {
        "a@preset=llama_cpp": ("http://127.0.0.1:8080/v1", False),
        "a@preset=ollama": ("http://127.0.0.1:11434/v1", False),
    }


def test_what_a_preset_cannot_give_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    text = "models:\n  a: {openai: {preset: anthropic, model: x, logprobs: 5, n: true, prompt_logprobs: true}}\n"
    assert problems(tmp_path, text + "inference: {draws: 3, temperature: 1.5}\n") == [
        "t.yaml:7:24: models.a.openai.preset: Anthropic draws at temperatures up to 1, got 1.5 "
        "(`inference: temperature`) (a lower temperature)",
        "t.yaml:7:55: models.a.openai.logprobs: Anthropic shows no log-probabilities, got 5 (leave it out)",
        "t.yaml:7:61: models.a.openai.n: Anthropic gives one answer to a request (leave it out)",
        "t.yaml:7:84: models.a.openai.prompt_logprobs: Anthropic scores no prompts, so that it gives no priors (leave it out)",
    ]
    (lacking,) = problems(tmp_path, "models:\n  a: {openai: {preset: gemini, model: x}}\n")
    assert "perplexity needs token_logprobs" in lacking and "Gemini shows no log-probabilities, whatever is set" in lacking
    (many,) = problems(tmp_path, "models:\n  a: {openai: {preset: ollama, model: x, logprobs: 50}}\n")
    assert many.endswith("Ollama shows the 20 likeliest tokens at most, got 50 (`logprobs: 20`, or leave it out)")


def test_json_is_asked_only_of_servers_that_constrain_replies(tmp_path: Path) -> None:
    text = "models:\n  a: {{openai: {{preset: {preset}, model: x}}, leave_out: [perplexity]{own}}}\nprompt: {{answer_format: json}}\n"
    assert problems(tmp_path, text.format(preset="anthropic", own="")) == [
        "t.yaml:7:3: models.a: Anthropic ignores a JSON Schema at this address, and `answer_format: json` needs one "
        "(`prompt: {answer_format: free}` beside its plugin)"
    ]
    assert list(resolve(tmp_path, text.format(preset="anthropic", own=", prompt: {answer_format: free}"))) == ["a"]
    assert list(resolve(tmp_path, text.format(preset="ollama", own=""))) == ["a"]


def test_the_chat_template_is_the_one_that_transformers_takes(tmp_path):
    def having(name, text):
        (tmp_path / name).write_text(text)
        return chat_template(tmp_path)

    assert having("processor_config.json", "{}") == ""
    assert having("chat_template.jinja", "own file") == "own file"
    assert having("chat_template.json", json.dumps({"chat_template": "older"})) == "older"
    assert having("processor_config.json", json.dumps({"chat_template": {"tools": "t", "default": "d"}})) == "d"
    (tmp_path / "chat_template.json").write_text("[1]")
    assert having("processor_config.json", "{") == "own file"
