import json
import math

import numpy as np
import pytest
from safetensors.numpy import save_file

from qualm.compiler.project.model_sizes import QUANTISED, Size, shapes, size_of_folder, size_of_hub_model
from qualm.registry.entries.published_models import published

WEIGHTS = {
    "model.embed_tokens.weight": (100, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.layers.0.self_attn.k_proj.weight": (4, 8),
    "model.layers.1.self_attn.q_proj.weight": (8, 8),
    "model.layers.1.self_attn.k_proj.weight": (4, 8),
    "vision_tower.patch.weight": (5, 3),
    "multi_modal_projector.weight": (2, 2),
}


def folder(path, weights=WEIGHTS, config=None):
    path.mkdir(exist_ok=True)
    save_file({name: np.zeros(shape, np.float16) for name, shape in weights.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config or {"vision_config": {"image_size": 32, "patch_size": 8}}))
    return path


def test_the_size_of_a_folder_is_told_from_the_shapes_of_its_weights(tmp_path):
    size = size_of_folder(folder(tmp_path / "m"))
    language = sum(math.prod(shape) for name, shape in WEIGHTS.items() if name.startswith("model."))
    assert (size.language, size.vision) == (language, 19) and (size.layers, size.hidden, size.vocabulary) == (2, 8, 100)
    assert (size.query_width, size.key_width, size.image_tokens, size.tied) == (8, 4, 16, True)
    untied = size_of_folder(folder(tmp_path / "u", {**WEIGHTS, "lm_head.weight": (100, 8)}))
    assert not untied.tied and untied.body == size.body == language - 800


@pytest.mark.parametrize(
    ("text", "slow"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"]}, False),
        ({"layer_types": ["linear_attention", "full_attention"]}, True),
        ({"cross_attention_layers": [1]}, True),
        ({"is_encoder_decoder": True}, True),
    ],
)
def test_models_that_are_read_by_plain_passes_say_so(tmp_path, text, slow):
    config = {"vision_config": {"image_size": 32, "patch_size": 8}, "text_config": text}
    assert (
        size_of_folder(folder(tmp_path / "m", config=config)).source.endswith("; read by plain passes, which take longer than estimated")
        == slow
    )


def test_memory_by_hand():
    size = Size(1000.0, 10.0, 2, 8, 8, 4, 50, 16, "")
    assert size.weight_bytes("bfloat16") == 2020 and size.weight_bytes("float32") == 4040 and size.cache_bytes("float16") == 2 * 2 * 4 * 2
    apart = 50 * 8 * 2
    assert size.weight_bytes("bfloat16", "int8") == (apart + 10) * 2 + (1000 - apart) * 1.0
    assert size.weight_bytes("bfloat16", "nf4") == (apart + 10) * 2 + (1000 - apart) * QUANTISED["nf4"] and size.body == 200


def test_shapes_are_read_from_all_files(tmp_path):
    folder(tmp_path)
    save_file({"b": np.zeros(3, np.int64)}, tmp_path / "second.safetensors", metadata={"format": "pt"})
    assert shapes(tmp_path) == {**WEIGHTS, "b": (3,)}
    (tmp_path / "broken.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(ValueError, match=r"broken.safetensors is not a safetensors file"):
        shapes(tmp_path)
    assert "is not a safetensors file" in size_of_folder(tmp_path)


def test_why_a_size_cannot_be_told(tmp_path):
    assert str(tmp_path) in size_of_folder(tmp_path)
    assert "no self_attn.k_proj and embed_tokens" in size_of_folder(folder(tmp_path / "m", {"x": (2, 2)}))


@pytest.mark.parametrize(
    "config",
    [
        [],
        "x",
        {"vision_config": [1]},
        {"architectures": 5},
        {"vision_config": {"image_size": "large", "patch_size": 14}},
    ],
)
def test_a_config_of_another_shape_is_a_reason(tmp_path, config):
    made = folder(tmp_path)
    (made / "config.json").write_text(json.dumps(config))
    assert str(size_of_folder(made)).startswith(f"{made}: its config.json or its weights are not as transformers writes them: ")


def test_models_of_the_hub():
    qwen = size_of_hub_model("Qwen/Qwen2-VL-7B-Instruct")
    assert 7e9 < qwen.language + qwen.vision < 9e9 and size_of_hub_model("nobody/none") is None


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "queries", "keys", "vocabulary", "pictures", "tied"),
    [
        ("llava-hf/llava-1.5-7b-hf", 32, 4096, 4096, 4096, 32064, 576, False),
        ("Qwen/Qwen2-VL-7B-Instruct", 28, 3584, 28 * 128, 4 * 128, 152064, 391, False),
        ("Qwen/Qwen2-VL-2B-Instruct", 28, 1536, 12 * 128, 2 * 128, 151936, 391, True),
        ("google/gemma-3-4b-it", 34, 2560, 8 * 256, 4 * 256, 262208, 256, True),
    ],
)
def test_what_makers_say_of_their_models(name, layers, hidden, queries, keys, vocabulary, pictures, tied):
    """Of their config.json on the hub; tied is what its class says where the file is silent."""
    size = size_of_hub_model(name)
    assert (size.layers, size.hidden, size.query_width, size.key_width) == (layers, hidden, queries, keys)
    assert (size.vocabulary, size.image_tokens, size.tied) == (vocabulary, pictures, tied)
    whole = published()[name].parameters.total * 1e9
    assert size.language + size.vision == pytest.approx(whole) and size.body == size.language - vocabulary * hidden * (1 if tied else 2)
    assert size.source == f"table of published models, {name}"


def test_a_published_model_without_picture_tokens_has_those_of_llava():
    phi = published()["microsoft/Phi-3.5-vision-instruct"]
    assert (
        phi.image_tokens is None
        and size_of_hub_model(phi.name).image_tokens == 576 == size_of_hub_model("llava-hf/llava-1.5-7b-hf").image_tokens
    )
    assert size_of_hub_model("OpenGVLab/InternVL2_5-8B") is None, "whose language model the table does not describe"


QWEN = {"architectures": ["Qwen2VLForConditionalGeneration"]}


@pytest.mark.parametrize(
    ("config", "tokens", "how"),
    [
        ({"vision_config": {"image_size": 28, "patch_size": 14}}, 4, "one image token per patch"),
        ({"vision_config": {"image_size": [14, 42], "patch_size": [14, 14]}}, 9, "one image token per patch"),
        ({"vision_config": {"image_size": 28}}, 576, "576 image tokens assumed"),
        ({"model_type": "x"}, 576, "576 image tokens assumed"),
        (QWEN, 391, "image tokens as in published models of its class"),
        ({**QWEN, "vision_config": {"image_size": 224, "patch_size": 14}}, 391, "image tokens as in published models of its class"),
        ({**QWEN, "vision_config": {"image_size": 222, "patch_size": 111}}, 4, "one image token per patch"),
    ],
)
def test_tokens_of_a_picture(tmp_path, config, tokens, how):
    size = size_of_folder(folder(tmp_path / "m", config=config))
    assert size.image_tokens == tokens and size.source == f"{tmp_path / 'm'}, {how}"


def test_of_published_models_of_a_class_that_differ_the_middle_one_counts(tmp_path, monkeypatch):
    one = published()["Qwen/Qwen2-VL-7B-Instruct"]
    several = {str(n): one.model_copy(update={"family": "Mine", "image_tokens": n}) for n in (900, 100, None, 300)}
    monkeypatch.setattr("qualm.compiler.project.model_sizes.published", lambda: several)
    assert size_of_folder(folder(tmp_path / "m", config={"architectures": ["Mine"]})).image_tokens == 300


def test_a_model_smaller_than_its_embedding_has_no_body():
    size = Size(100.0, 10.0, 2, 8, 8, 4, 50, 16, "")
    assert size.body == 0 and size.weight_bytes("float16", "int8") == (800 + 10) * 2
    tied = Size(1000.0, 10.0, 2, 8, 8, 4, 50, 16, "", True)
    assert tied.body == 600 and tied.weight_bytes("float64", "int4") == (400 + 10) * 8 + 600 * 0.5625
