"""Presets against exchanges as the servers' API descriptions have them: what is sent they take, what they give is read."""

import json
from urllib.parse import urlsplit

import PIL.Image
import pytest

from qualm.registry.plugins import registry
from qualm.runners.contracts.models import Decoding, ModelContext, ModelError, Request
from qualm.runners.plugins.models.openai import openai
from qualm.runners.prompts.question import messages
from qualm.runners.runtime.server_config import DEFAULT_KEYS
from qualm.runners.runtime.server_presets import PRESETS, REQUIRED_FIELDS, find_unsupported, unsupported_reason
from qualm.runners.runtime.settings import Settings, SettingsError
from tests.support.servers.recorded_servers import FOLDER, recorded_serving
from tests.support.servers.small_server import IMPATIENT

ADDRESS_ROW = "| {title} | `{name}` | {where} | {key} |"
FEATURE_ROW = "| `{name}` | {top} | {prompts} | {n} | {seeds} | {structured} | {batch} |"


@pytest.mark.parametrize("name", PRESETS)
def test_all_that_a_preset_gives_is_had_and_nothing_else_is_sent(name):
    preset = PRESETS[name]
    image = PIL.Image.new("RGB", (4, 4))
    with recorded_serving(name) as server:
        model = openai(
            ModelContext("m", settings=Settings(progress=False, servers=IMPATIENT)),
            model="m",
            base_url=server.url,
            logprobs=min(preset.top, 5),
            partial_p_true=preset.top > 0,
            prompt_logprobs=preset.prompts,
            n=preset.n,
            seeds=preset.seeds,
        )
        parts = ["answer", "said_confidence", "draw 1", "draw 2"]
        parts += ["p_yes", "p_true"] * (preset.top > 0) + ["without_image"] * preset.prompts
        talk = messages("What is it?", n_images=2)
        request = Request(model.render(talk), image, 0, "What is it?", tuple(parts), 7, more=(image,))
        replies = {reply.part: reply for reply in model.parts(request, Decoding(4, 1.0, 0.9))}
        choice = Request(model.render(messages("Which?", ["u", "v"], 0)), None, 2, "Which?", ("options",), 7)
        replies |= {reply.part: reply for reply in model.parts(choice, Decoding(4))} if preset.top else {}
    assert not server.script.unasked, "the description has no such field"
    assert not any(reply.rejected or reply.reason for reply in replies.values()), replies
    assert [replies[part].value.text for part in ("answer", "draw 1", "draw 2")] == ["A cube"] * 3
    assert sum("n" in body for body in server.bodies) == preset.n
    assert ("seed" in str([body.keys() for body in server.bodies])) == (preset.seeds and not preset.n)
    assert len(server.bodies[0]["messages"][0]["content"]) == 3, "two pictures and the question"
    if preset.top:
        assert replies["answer"].value.logprobs == [-0.3, -0.7]
        assert replies["p_yes"].value.numbers[0] == pytest.approx(1 / (1 + 2.718281828 ** (-0.5)))
        assert replies["options"].value.numbers == pytest.approx([-0.3, -2.1])
    if preset.prompts:
        assert replies["without_image"].value.logprobs == [-1.5, -2.5, -0.1]


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.top])
def test_who_shows_no_log_probabilities_is_found_out_without_a_preset(name):
    """What a user would see who asked all the same: answers without log-probabilities, or rejections; never a number."""
    with recorded_serving(name) as server:
        settings = Settings(progress=False, servers=IMPATIENT)
        model = openai(ModelContext("m", settings=settings), model="m", base_url=server.url, logprobs=5)
        request = Request(model.render(messages("What is it?", n_images=0)), None, 0, "What is it?", ("answer",), 7)
        (reply,) = model.parts(request, Decoding(4))
        if name == "gemini":  # refuses fields that it does not know
            assert reply.rejected and reply.value.text is None
        else:
            assert reply.value.text and reply.value.logprobs is None and reply.reason == "the reply has no log-probabilities"


def test_what_a_server_cannot_give_is_said_by_parameter():
    anthropic, ollama, vllm = (PRESETS[name] for name in ("anthropic", "ollama", "vllm"))
    assert find_unsupported(anthropic, 5, True, True, True, 1.5) == {
        "logprobs": "Anthropic shows no log-probabilities, got 5",
        "prompt_logprobs": "Anthropic scores no prompts, so that it gives no priors",
        "n": "Anthropic gives one answer to a request",
        "seeds": "Anthropic takes no seed",
        "preset": "Anthropic draws at temperatures up to 1, got 1.5 (`inference: temperature`)",
    }
    assert find_unsupported(ollama, 21) == {"logprobs": "Ollama shows the 20 likeliest tokens at most, got 21"}
    assert find_unsupported(vllm, 100, True, True, True, 2.0) == {} == find_unsupported(anthropic)
    assert unsupported_reason(anthropic, ["logprobs"]) == "Anthropic shows no log-probabilities, whatever is set"
    assert unsupported_reason(ollama, ["prompt_logprobs"]) == "Ollama shows no log-probabilities of prompts, whatever is set"
    assert unsupported_reason(ollama, ["logprobs"]) == "" == unsupported_reason(None, ["logprobs"])


def test_presets_are_those_of_the_plugin_and_have_exchanges():
    plugin = registry.get("models", "openai")
    (parameter,) = [p for p in plugin.parameters if p.name == "preset"]
    assert all(name in parameter.text for name in PRESETS) and set(REQUIRED_FIELDS) <= {p.name for p in plugin.parameters}
    assert {path.stem for path in FOLDER.glob("*.json")} == set(PRESETS)
    for name, preset in PRESETS.items():
        record = json.loads((FOLDER / f"{name}.json").read_text())
        assert (preset.n, preset.seeds, preset.top > 0) == (record["most_answers"] > 1, "seed" in record["takes"], record["top"] > 0)
        assert preset.structured == ("response_format" in record["takes"])
        assert preset.prompts == ("prompt_logprobs" in record["takes"])
    with pytest.raises(ModelError, match="a preset is spelled out where specs are compiled"):
        openai(ModelContext("m"), model="m", preset="ollama")


def test_keys_go_to_the_hosts_of_presets_alone():
    assert {urlsplit(preset.base_url).hostname: preset.key for preset in PRESETS.values() if preset.key} == DEFAULT_KEYS
    assert all(preset.key.endswith("_API_KEY") for preset in PRESETS.values() if preset.base_url.startswith("https"))
    assert Settings().server(PRESETS["anthropic"].base_url, "m").key == "ANTHROPIC_API_KEY"
    with pytest.raises(SettingsError, match="Anthropic has no batch API of OpenAI's kind; say `batch = false` there"):
        Settings(servers={"default": {"batch": True}}).server(PRESETS["anthropic"].base_url, "m")


def test_the_table_in_the_documentation():
    page = (registry.ROOT / "docs/how-to/servers.md").read_text()
    for name, preset in PRESETS.items():
        top = (f"{preset.top}" + (f", {preset.top_note}" if preset.top_note else "")) if preset.top else "none"
        yes = {field: "yes" if getattr(preset, field) else "no" for field in ("prompts", "n", "seeds", "structured", "batch")}
        key = f"`{preset.key}`" if preset.key else "none"
        address = ADDRESS_ROW.format(title=preset.title, name=name, where=f"`{preset.base_url}`", key=key)
        features = FEATURE_ROW.format(name=name, top=top, **yes)
        assert address in page and features in page, f"the rows of {name} should be:\n{address}\n{features}"
