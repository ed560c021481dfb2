"""Models of published sizes with random weights, made without a download.

The configuration is that of `registry/entries/published_models.yaml`, the processor has the published settings, and the tokenizer and
the chat template are those of the tiny model of the same family.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, GenerationConfig, PreTrainedTokenizerFast

from qualm.registry.entries.published_models import published
from qualm.runners.contracts.models import ModelContext
from qualm.runners.inference.hf.model import HfVlm
from qualm.runners.inference.hf.rows import Network
from qualm.runners.plugins.models.hf_vlm import hf_vlm
from tests.support.models.tiny_models import tiny_idefics3, tiny_llava, tiny_qwen2_vl

TOKEN_IDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
LOGIT_SPREAD = 6.0
"""Standard deviation of the logits: the likeliest token then has about the probability that a trained model gives it."""
WEIGHT_GAIN = 1.7
"""Standard deviation of weights times the root of the hidden width. At transformers' default, less than 1 for a narrow model, all answers
are alike."""
QWEN2_VL_PIXELS = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}


@dataclass(frozen=True)
class FullSize:
    """A published model and the tiny model of its family."""

    hub: str
    tiny: Callable[[Path], Path]
    processor: dict[str, Any]
    """Published settings of the processor that differ from the tiny one's."""
    tokens: tuple[str, ...] = field(default=())
    """Special tokens that the tiny tokenizer lacks."""


SIZES = {
    "smolvlm-256m": FullSize(
        "HuggingFaceTB/SmolVLM-256M-Instruct",
        tiny_idefics3,
        {"image_seq_len": 64, "image_processor": {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}}},
        tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5) if 4 in (row, column)),
    ),
    "qwen2-vl-2b": FullSize("Qwen/Qwen2-VL-2B-Instruct", tiny_qwen2_vl, {"image_processor": {"size": QWEN2_VL_PIXELS}}),
    "qwen2-vl-7b": FullSize("Qwen/Qwen2-VL-7B-Instruct", tiny_qwen2_vl, {"image_processor": {"size": QWEN2_VL_PIXELS}}),
    "llava-1.5-7b": FullSize(
        "llava-hf/llava-1.5-7b-hf",
        tiny_llava,
        {"patch_size": 14, "image_processor": {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}},
    ),
}


def full_size(
    name: str, folder: Path, device: str, dtype: str, *, shrunk: bool = False, tokenizer: PreTrainedTokenizerFast | None = None
) -> HfVlm:
    """Return a randomly initialised model of a published size, loaded on a device.

    Args:
        name: a key of `SIZES`.
        folder: empty; takes the processor, the tokenizer and the configuration, which the model reads as long as it is used.
        device: where the weights are made.
        dtype: of the weights.
        shrunk: keep the tiny model's size, for tests on a CPU.
        tokenizer: takes the place of the tiny one, with the tiny one's special tokens added.
    """
    size = SIZES[name]
    size.tiny(folder)
    config = AutoConfig.from_pretrained(folder)
    if tokenizer is not None:
        _replace_tokenizer(tokenizer, config, folder)
    if not shrunk:
        config = _published_config(size, config)
        config.save_pretrained(folder)
        _write_published_processor(size, folder)
    model = hf_vlm(ModelContext(name, folder), dtype=dtype)
    model.module = random_module(config, model.tokenizer, device, dtype)
    model.network = Network(model.module)
    model.stops = {model.tokenizer.eos_token_id}
    return model


def _replace_tokenizer(tokenizer: PreTrainedTokenizerFast, config: Any, folder: Path) -> None:
    """Put another tokenizer into the folder of a tiny model, and the ids of its special tokens into the configuration."""
    tiny, text = PreTrainedTokenizerFast.from_pretrained(folder), config.get_text_config()
    tokenizer.chat_template = None  # the processor has one
    tokenizer.add_tokens(tiny.all_special_tokens, special_tokens=True)
    tokenizer.add_special_tokens({"eos_token": tiny.eos_token, "pad_token": tiny.pad_token})
    tokenizer.save_pretrained(folder)
    for owner, name in ((config, n) for n in TOKEN_IDS if hasattr(config, n)):
        setattr(owner, name, tokenizer.convert_tokens_to_ids(tiny.convert_ids_to_tokens(getattr(owner, name))))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(text, name, tokenizer.convert_tokens_to_ids(tiny.convert_ids_to_tokens(getattr(text, name))))


def random_module(config: Any, tokenizer: Any, device: str, dtype: str) -> torch.nn.Module:
    """Return a module with random weights whose answers are made of the tokenizer's tokens and mostly differ between prompts."""
    torch.manual_seed(0)
    with torch.device(device):
        module = AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, dtype))
    head = module.get_output_embeddings().weight
    with torch.no_grad():
        head.zero_()
        head[: len(tokenizer)].normal_(std=LOGIT_SPREAD / head.shape[1] ** 0.5)
        for name in TOKEN_IDS:  # never said by a trained model: it would count as a picture
            if hasattr(config, name):
                head[getattr(config, name)] = 0
    module.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    return module.eval()


def _published_config(size: FullSize, tiny: Any) -> Any:
    """Return the published configuration, with the token ids of the tiny model."""
    settings = dict(published()[size.hub].config or {})
    config = AutoConfig.for_model(settings.pop("model_type"), **json.loads(json.dumps(settings)))
    for name in TOKEN_IDS:
        if hasattr(tiny, name):
            setattr(config, name, getattr(tiny, name))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config.get_text_config(), name, getattr(tiny.get_text_config(), name))
    config.get_text_config().initializer_range = WEIGHT_GAIN / config.get_text_config().hidden_size ** 0.5
    return config


def _write_published_processor(size: FullSize, folder: Path) -> None:
    file = folder / "processor_config.json"
    settings = json.loads(file.read_text())
    images = {**settings["image_processor"], **size.processor.get("image_processor", {})}
    file.write_text(json.dumps({**settings, **size.processor, "image_processor": images}))
    if size.tokens:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        tokenizer.add_tokens(list(size.tokens), special_tokens=True)
        tokenizer.save_pretrained(folder)
