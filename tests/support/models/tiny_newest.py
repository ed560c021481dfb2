"""Tiny families of 2026."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save
from tests.support.models.tiny_plain import tiny_qwen3_5_moe
from tests.support.models.tiny_recent import CHATML, turns
from tests.support.models.tiny_tiling import text, vision

GEMMA4 = [
    "<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|image>", "<image|>", "<|image|>", "<|video|>", "<|audio|>", "<|audio>", "<audio|>",
]  # fmt: skip


def _gemma4(folder: Path, seed: int, **language) -> Path:
    import torch
    from transformers import (
        Gemma4AudioFeatureExtractor,
        Gemma4Config,
        Gemma4ForConditionalGeneration,
        Gemma4ImageProcessorPil,
        Gemma4Processor,
    )

    torch.manual_seed(seed)
    named = {
        "boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>", "audio_token": "<|audio|>",
        "boa_token": "<|audio>", "eoa_token": "<audio|>",
    }  # fmt: skip
    tokenizer = bytes_tokenizer(GEMMA4, "<eos>", "<pad>", named, bos_token="<bos>")
    n = len(tokenizer)
    small = text(
        n, 2, 1, 0, head_dim=8, global_head_dim=16, sliding_window=24, tie_word_embeddings=True, initializer_range=0.2, num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2, vocab_size_per_layer_input=n,
    )  # fmt: skip
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 8, "patch_size": 4, "position_embedding_size": 64, "pooling_kernel_size": 2, "initializer_range": 0.2,
    }  # fmt: skip
    config = Gemma4Config(
        text_config={**small, **language}, vision_config=vision, audio_config=None, tie_word_embeddings=True,
        boi_token_id=5, eoi_token_id=6, image_token_id=7, video_token_id=8, audio_token_id=9, boa_token_id=10, eoa_token_index=11,
        eos_token_id=[1, 4],
    )  # fmt: skip
    template = (
        "<bos>{% for m in messages %}<|turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}<|image|>{% else %}{{ c['text'] | trim }}{% endif %}{% endfor %}<turn|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|turn>model\n{% endif %}"
    )
    images = Gemma4ImageProcessorPil(patch_size=4, max_soft_tokens=70, pooling_kernel_size=2)
    with still_images_only():
        processor = Gemma4Processor(Gemma4AudioFeatureExtractor(), images, tokenizer, None, chat_template=template, image_seq_length=70)
    return save(Gemma4ForConditionalGeneration(config), processor, folder)


def tiny_gemma4(folder: Path, seed: int = 0) -> Path:
    """As E2B: an embedding for each layer beside the first, the upper half of the layers reads the keys and values of the lower."""
    return _gemma4(folder, seed, hidden_size_per_layer_input=8, num_kv_shared_layers=2, use_double_wide_mlp=True)


def tiny_gemma4_moe(folder: Path, seed: int = 0) -> Path:
    """As 26B-A4B: image tokens see each other both ways, experts beside a dense layer, keys that are the values as well."""
    return _gemma4(
        folder, seed, hidden_size_per_layer_input=0, use_bidirectional_attention="vision", attention_k_eq_v=True,
        num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=32,
    )  # fmt: skip


def tiny_janus(folder: Path, seed: int = 0) -> Path:
    """Janus: a tower that reads pictures, another that draws them and is not asked, a Llama."""
    import torch
    from transformers import (
        JanusConfig,
        JanusForConditionalGeneration,
        JanusImageProcessorPil,
        JanusProcessor,
        JanusVisionConfig,
        JanusVQVAEConfig,
        LlamaConfig,
    )

    torch.manual_seed(seed)
    marks = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
    tokenizer = bytes_tokenizer([*CHATML, *marks.values()], "<|im_end|>", "<|endoftext|>", marks)
    drawing = JanusVQVAEConfig(
        embed_dim=8, num_embeddings=16, latent_channels=8, base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, num_patches=4,
        projection_dim=32, image_token_embed_dim=32,
    )  # fmt: skip
    config = JanusConfig(
        vision_config=JanusVisionConfig(**vision(projection_dim=32, num_image_tokens=16, initializer_range=0.2)), vq_config=drawing,
        text_config=LlamaConfig(**text(len(tokenizer), 0, 2, 0)), image_token_id=3, tie_word_embeddings=False,
    )  # fmt: skip
    images = JanusImageProcessorPil(size={"height": 32, "width": 32}, min_size=8)
    processor = JanusProcessor(images, tokenizer, num_image_tokens=16, chat_template=turns("<image_placeholder>"))
    return save(JanusForConditionalGeneration(config), processor, folder)


NEWEST = {"gemma4": tiny_gemma4, "gemma4_moe": tiny_gemma4_moe, "janus": tiny_janus, "qwen3_5_moe": tiny_qwen3_5_moe}
"""Families by name; `gemma4_moe` is Gemma 4's mixture of experts, of the same classes."""
