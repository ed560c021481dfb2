"""The table of published models: sizes are counted from their configurations, image tokens by the processors themselves."""

import json
from pathlib import Path

import PIL.Image
import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

from qualm.registry.entries.published_models import TableError, published, verified
from qualm.registry.sample import GENERATIONS
from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_gemmas import KOSMOS2_TEMPLATE, PALIGEMMA_TEMPLATE
from tests.support.models.tiny_parts import bytes_tokenizer, words_tokenizer

MODELS = published()
SIGHT = ("vision", "visual", "projector", "connector", "image_newline", "image_to_text")
"""What stands in the names of weights that read pictures."""


@pytest.mark.parametrize("name", [name for name, m in MODELS.items() if m.config])
def test_sizes(name, monkeypatch):
    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", lambda linear: None)  # nothing is drawn for what has no memory
    model = MODELS[name]
    config = CONFIG_MAPPING[model.config["model_type"]](
        **json.loads(json.dumps({k: v for k, v in model.config.items() if k != "model_type"}))
    )
    with torch.device("meta"):
        module = AutoModelForImageTextToText.from_config(config)
    assert type(module).__name__ == model.family
    vision = sum(p.numel() for n, p in module.named_parameters() if any(s in n for s in SIGHT)) / 1e9
    language = sum(p.numel() for n, p in module.named_parameters() if not any(s in n for s in SIGHT)) / 1e9
    assert (model.parameters.language, model.parameters.vision) == (pytest.approx(language, abs=6e-4), pytest.approx(vision, abs=6e-4))
    assert model.parameters.published == pytest.approx(language + vision, rel=0.01)
    text = config.get_text_config()
    heads = text.num_attention_heads
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    expected = (text.num_hidden_layers, text.hidden_size, heads, kv_heads, head_dim, text.vocab_size)
    assert tuple(model.text.model_dump().values()) == expected


def tiled(name):
    """A processor of a family with its published settings, and the mark of a picture."""
    t = transformers
    words, square = words_tokenizer(), lambda n: {"height": n, "width": n}
    clip = {"size": {"shortest_edge": 336}, "crop_size": square(336)}
    llava = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    if name == "llava":
        return t.LlavaProcessor(t.CLIPImageProcessorPil(**clip), words, **llava), "<image>"
    if name == "llava_next":
        grid = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
        return t.LlavaNextProcessor(t.LlavaNextImageProcessorPil(**clip, image_grid_pinpoints=grid), words, **llava), "<image>"
    if name == "llava_onevision":
        grid = [[384 * a, 384 * b] for a in range(1, 7) for b in range(1, 7)]
        images = t.LlavaOnevisionImageProcessorPil(size=square(384), image_grid_pinpoints=grid)
        return t.LlavaOnevisionProcessor(images, words, None, num_image_tokens=729, vision_feature_select_strategy="full"), "<image>"
    if name.startswith("qwen"):
        special = ["<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
        tokenizer = bytes_tokenizer(special, "<|endoftext|>", "<|endoftext|>")
        if name.startswith("qwen3"):
            images = t.Qwen2VLImageProcessorPil(min_pixels=256 * 256, max_pixels=4096 * 4096, patch_size=16)
            return t.Qwen3VLProcessor(images, tokenizer, None), "<|image_pad|>"
        images = t.Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=16384 * 28 * 28)
        return t.Qwen2VLProcessor(images, tokenizer, None), "<|image_pad|>"
    if name == "internvl":
        named = {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        }
        tokenizer = bytes_tokenizer(["<|e|>", *named.values()], "<|e|>", "<|e|>", named)
        images = t.GotOcr2ImageProcessorPil(size=square(448), crop_to_patches=True, min_patches=1, max_patches=12)
        return t.InternVLProcessor(images, tokenizer, None, image_seq_length=256), "<IMG_CONTEXT>"
    tile, length = {"idefics3-8b": (364, 169), "smolvlm-512": (512, 64), "smolvlm-384": (384, 81)}[name]
    special = ["<|e|>", "<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    special += [f"<row_{r}_col_{c}>" for r in range(1, 8) for c in range(1, 8)]
    images = t.Idefics3ImageProcessorPil(size={"longest_edge": 4 * tile}, max_image_size={"longest_edge": tile})
    return t.Idefics3Processor(images, bytes_tokenizer(special, "<|e|>", "<|e|>"), image_seq_len=length), "<image>"


def rule(model):
    """Which of the processors above a model has."""
    kind = model.config["model_type"]
    if kind in ("idefics3", "smolvlm"):
        return {364: "idefics3-8b", 512: "smolvlm-512", 384: "smolvlm-384"}[model.config["vision_config"]["image_size"]]
    return kind


TILED = ("llava_next", "llava_onevision", "qwen2_vl", "qwen3_vl", "internvl", "idefics3-8b", "smolvlm-512", "smolvlm-384", "llava")


@pytest.mark.parametrize("name", TILED)
def test_picture_tokens(name):
    with still_images_only():
        processor, mark = tiled(name)
    ids = processor(text=[mark], images=[[PIL.Image.new("RGB", (640, 480))]], return_tensors="pt")["input_ids"][0]
    count = int((ids == processor.tokenizer.convert_tokens_to_ids(mark)).sum())
    same = {"qwen2_vl": ("qwen2_vl", "qwen2_5_vl"), "qwen3_vl": ("qwen3_vl", "qwen3_vl_moe")}.get(name, (name,))
    models = [
        m for m in MODELS.values() if m.config and rule(m) in same and m.config.get("vision_config", {}).get("model_type") != "pixtral"
    ]
    assert models and {m.image_tokens for m in models} == {count}


def test_picture_tokens_of_pixtral_and_fixed_sizes():
    """Pixtral's processor needs torchvision: rows and columns of patches, and the end of each row, by hand."""
    assert MODELS["mistral-community/pixtral-12b"].image_tokens == (480 // 16) * (640 // 16) + 480 // 16
    rows, columns = -(-480 // 28), -(-640 // 28)
    assert MODELS["mistralai/Mistral-Small-3.1-24B-Instruct-2503"].image_tokens == rows * columns + rows
    assert MODELS["google/paligemma2-3b-mix-448"].image_tokens == (448 // 14) ** 2
    assert MODELS["google/gemma-3-4b-it"].image_tokens == (896 // 14 // 4) ** 2


def test_what_is_lacking_is_a_column():
    for model in MODELS.values():
        assert set(model.lacks) <= set(GENERATIONS.names)
        assert model.config or model.unsupported


def test_a_broken_table_names_model_and_key(tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text("a/b: {class: X, parameters: {published: 1.5}, licence: mit, size: 3}\nc/d: {class: Y, licence: mit}\n")
    with pytest.raises(TableError) as caught:
        published(file)
    assert "a/b: size: Extra inputs" in str(caught.value) and "c/d: parameters: Field required" in str(caught.value)


def test_the_docs_have_the_templates():
    text = (Path(__file__).parents[3] / "docs/how-to/models.md").read_text()
    assert PALIGEMMA_TEMPLATE in text and KOSMOS2_TEMPLATE in text


def test_families_of_models_that_can_be_asked_were_examined():
    """By the model type of the configuration, whose hyphens families' names lack."""
    table = verified()
    families = {
        name for part in (table, table["with torchvision"], table["with timm"]) for key in part for name in part[key] if "pass" in key
    }
    kinds = {name: str((model.config or {}).get("model_type", "")).replace("-", "") for name, model in MODELS.items()}
    assert {name for name, kind in kinds.items() if kind not in families} == {name for name, model in MODELS.items() if model.unsupported}
