"""Tiny Qwens: pictures of any size, positions along three axes."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


def text(tokenizer, **changes):
    """A language model of two layers; the rotary sections are those of heads of 8."""
    small = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}, "initializer_range": 0.3,
    }  # fmt: skip
    return {**small, **changes}


def tokens():
    """The tokenizer, and the ids that every Qwen's configuration names."""
    tokenizer = bytes_tokenizer(SPECIAL, "<|im_end|>", "<|endoftext|>")
    start, end, image, video = tokenizer.convert_tokens_to_ids(SPECIAL[3:])
    return tokenizer, {"image_token_id": image, "video_token_id": video, "vision_start_token_id": start, "vision_end_token_id": end}


def tiny_qwen2_vl(folder: Path, seed: int = 0) -> Path:
    """Three-axis rotary positions and images of any size: where padding goes wrong first."""
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLImageProcessorPil, Qwen2VLProcessor

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    vision = {"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 2, "patch_size": 14, "mlp_ratio": 2}
    config = Qwen2VLConfig(text_config=text(tokenizer), vision_config=vision, **ids)
    images = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16)
    with still_images_only():
        processor = Qwen2VLProcessor(images, tokenizer, None, chat_template=TEMPLATE)
    return save(Qwen2VLForConditionalGeneration(config), processor, folder)


def tiny_qwen2_5_vl(folder: Path, seed: int = 0) -> Path:
    """The vision tower attends within windows in all layers but one; the template speaks a system message of its own."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor, Qwen2VLImageProcessorPil

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 14, "out_hidden_size": 32,
        "window_size": 56, "fullatt_block_indexes": [1], "initializer_range": 0.2,
    }  # fmt: skip
    config = Qwen2_5_VLConfig(text_config=text(tokenizer), vision_config=vision, **ids)
    images = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16)
    with still_images_only():
        processor = Qwen2_5_VLProcessor(images, tokenizer, None, chat_template=SYSTEM + TEMPLATE)
    return save(Qwen2_5_VLForConditionalGeneration(config), processor, folder)


def tiny_qwen3_vl(folder: Path, seed: int = 0) -> Path:
    """Features of an early vision layer are added to the first layer of the language model (deepstack)."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4, "mrope_interleaved": True}
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 16, "out_hidden_size": 32,
        "num_position_embeddings": 16, "deepstack_visual_indexes": [0], "initializer_range": 0.2,
    }  # fmt: skip
    config = Qwen3VLConfig(text_config=text(tokenizer, head_dim=8, rope_parameters=rope), vision_config=vision, **ids)
    images = Qwen2VLImageProcessorPil(min_pixels=32 * 32, max_pixels=32 * 32 * 16, patch_size=16)
    with still_images_only():
        processor = Qwen3VLProcessor(images, tokenizer, None, chat_template=TEMPLATE)
    return save(Qwen3VLForConditionalGeneration(config), processor, folder)
