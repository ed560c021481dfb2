"""What plugins read, held to the columns that there are and to what a model gives."""

import json
from dataclasses import replace
from pathlib import Path

from qualm.compiler.spec.estimators import columns_read, config_of, missing_signals
from qualm.compiler.spec.language import Probe
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.resolved import ModelUse, ProbeUse
from qualm.registry.entries.published_models import published
from qualm.registry.plugins import registry
from tests.compiler.spec.resolving import change, problems, resolve


def test_columns_of_estimators_and_probes_and_what_is_wrong_with_them() -> None:
    umpire, p_ik = registry.get("estimators", "umpire"), registry.get("probes", "p_ik")
    args = {"layer": "last", "place": "answer_last"}
    assert columns_read("estimators", Ref("u", umpire, args)) == (["draw_hidden_states/-1/answer_last", "draw_logprobs"], "")
    assert columns_read("probes", ProbeUse("p", p_ik, {"layer": "middle"}, (), Probe())) == (["hidden_states/0.5/prompt_last"], "")
    reads, wrong = columns_read("estimators", Ref("u", umpire, {**args, "layer": "lowest"}))
    assert reads == [] and "expected a layer as `middle`" in wrong
    misspelt = replace(umpire, declares={**umpire.declares, "NEEDS": {"states": "token_logprob"}})
    assert "did you mean 'token_logprobs'?" in columns_read("estimators", Ref("u", misspelt, args))[1]


def test_what_a_model_lacks_in_the_words_of_its_gives() -> None:
    model = ModelUse(Ref("m", registry.get("models", "openai"), {}), None, frozenset({"text", "draws"}))
    assert missing_signals(["draw_hidden_states/-1/answer_last", "draw_logprobs", "text"], model) == ["hidden_states", "token_logprobs"]
    assert missing_signals(["draw_texts"], model) == []


def test_layers_and_plain_passes_are_known_where_the_config_is(tmp_path: Path) -> None:
    spec = change(
        "estimators: [perplexity]",
        "estimators: [perplexity, eigen_score: {layer: [2, 9]}, rauq: {layers: '3:8'}]\nprobes:\n  p: {p_ik: {layer: '7'}, fit: half}",
    )
    assert resolve(tmp_path, spec).probes  # nothing is known of a model that is not here
    folder = tmp_path / "registry" / "data" / "scene-vlm-base"
    folder.mkdir(parents=True)
    for name in ("processor_config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).touch()
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "config.json").write_text(json.dumps({"text_config": {"num_hidden_layers": 6}}))
    said = problems(tmp_path, spec)
    for words in (
        "eigen_score@layer=9 reads draw_hidden_states/9/answer_last, and it has 6 layers (the model 'base')",
        "rauq reads attention/3:8/previous, and it has 6 layers",
        "p_ik reads hidden_states/7/prompt_last, and it has 6 layers",
    ):
        assert sum(words in line for line in said) == 1, said
    assert len(said) == 3
    (folder / "config.json").write_text(json.dumps({"model_type": "mllama"}))
    said = problems(tmp_path, spec)
    assert len(said) == 4 and all("plain passes, does not give, since the image enters by cross-attention" in line for line in said)


def test_configs_of_published_models() -> None:
    hub = ModelUse(Ref("m", registry.get("models", "hf_vlm"), {"hub": "llava-hf/llava-1.5-7b-hf"}), None, frozenset())
    assert config_of(hub, Path()) == published()["llava-hf/llava-1.5-7b-hf"].config
    unsaid = replace(hub, ref=Ref("m", hub.ref.plugin, {"hub": "microsoft/kosmos-2-patch14-224"}))
    assert config_of(unsaid, Path()) == {"model_type": "kosmos-2", "text_config": {"num_hidden_layers": 24}}, "from the table beside it"
    assert config_of(ModelUse(Ref("m", registry.get("models", "hf_vlm"), {"hub": "nobody/none"}), None, frozenset()), Path()) == {}
