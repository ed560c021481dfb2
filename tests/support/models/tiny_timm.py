"""Tiny families whose picture tower is one of timm's: their config names it, and transformers builds it by that name."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save
from tests.support.models.tiny_recent import turns
from tests.support.models.tiny_tiling import text

CONVOLUTIONS, PATCHES = "test_efficientnet", "test_vit"
"""timm's own models for tests: 64 channels at a thirty-second of the size, and a ViT of width 64 with patches of 16."""

GEMMA3N = [
    "<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>",
    "<audio_soft_token>", "<start_of_audio>", "<end_of_audio>",
]  # fmt: skip


def tiny_gemma3n(folder: Path, seed: int = 0) -> Path:
    """Two streams of hidden states (AltUp), an embedding for each layer, upper layers that read the keys of the lower, windows of 24."""
    import timm
    import torch
    from transformers import (
        Gemma3nAudioFeatureExtractor,
        Gemma3nConfig,
        Gemma3nForConditionalGeneration,
        Gemma3nProcessor,
        SiglipImageProcessor,
    )

    torch.manual_seed(seed)
    named = {
        "boi_token": GEMMA3N[5], "eoi_token": GEMMA3N[6], "image_token": GEMMA3N[7], "audio_token": GEMMA3N[8], "boa_token": GEMMA3N[9],
        "eoa_token": GEMMA3N[10],
    }  # fmt: skip
    tokenizer = bytes_tokenizer(GEMMA3N, "<eos>", "<pad>", named, bos_token="<bos>")
    n = len(tokenizer)
    language = text(
        n, 2, 1, 0, head_dim=8, sliding_window=24, tie_word_embeddings=True, initializer_range=0.2, num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2, intermediate_size=[64] * 4, activation_sparsity_pattern=[0.5] + [0.0] * 3,
        vocab_size_per_layer_input=n, hidden_size_per_layer_input=8, num_kv_shared_layers=2, laurel_rank=4, altup_num_inputs=2,
    )  # fmt: skip
    tower = {"architecture": CONVOLUTIONS, "hidden_size": timm.create_model(CONVOLUTIONS).num_features, "model_args": {}}
    audio = {"hidden_size": 32, "conf_num_hidden_layers": 1, "conf_num_attention_heads": 2, "sscp_conv_channel_size": (4, 4)}
    config = Gemma3nConfig(
        text_config=language, vision_config={**tower, "vocab_size": 2, "vocab_offset": n},
        audio_config={**audio, "vocab_size": 2, "vocab_offset": n + 2}, vision_soft_tokens_per_image=4, audio_soft_tokens_per_image=4,
        boi_token_id=5, eoi_token_id=6, image_token_id=7, audio_token_id=8, boa_token_id=9, eoa_token_id=10, tie_word_embeddings=True,
        eos_token_id=[1, 4],
    )  # fmt: skip
    template = (
        "<bos>{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}<image_soft_token>{% else %}{{ c['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    )
    processor = Gemma3nProcessor(
        Gemma3nAudioFeatureExtractor(), SiglipImageProcessor(size={"height": 64, "width": 64}, do_normalize=False), tokenizer,
        chat_template=template, image_seq_length=4, audio_seq_length=4,
    )  # fmt: skip
    return save(Gemma3nForConditionalGeneration(config), processor, folder)


def tiny_fast_vlm(folder: Path, seed: int = 0) -> Path:
    """FastVLM: a convolutional tower, a Qwen2."""
    import timm
    import torch
    from transformers import CLIPImageProcessor, FastVlmConfig, FastVlmForConditionalGeneration, LlavaProcessor

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>", {"image_token": "<image>"})
    width = timm.create_model(CONVOLUTIONS).num_features
    config = FastVlmConfig(
        vision_config={
            "model_type": "timm_wrapper", "architecture": CONVOLUTIONS, "hidden_size": width, "do_pooling": False, "num_labels": 2,
            "num_channels": 3,
        },
        text_config={"model_type": "qwen2", **text(len(tokenizer), 0, 2, 0)}, image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )  # fmt: skip
    images = CLIPImageProcessor(size={"height": 64, "width": 64}, crop_size={"height": 64, "width": 64})
    processor = LlavaProcessor(
        images, tokenizer, chat_template=turns("<image>\n"), patch_size=32, num_additional_image_tokens=0,
        vision_feature_select_strategy="full",
    )  # fmt: skip
    model = FastVlmForConditionalGeneration(config)
    for weights in model.model.vision_tower.parameters():
        if weights.ndim > 1:
            torch.nn.init.kaiming_normal_(weights)  # as it is drawn by itself, 1e-14 is left of a picture
    return save(model, processor, folder)


def tiny_perception_lm(folder: Path, seed: int = 0) -> Path:
    """Perception LM: tiles and a thumbnail, a ViT whose class token is dropped, tokens pooled two by two, a Llama."""
    import torch
    from transformers import (
        PerceptionLMConfig,
        PerceptionLMForConditionalGeneration,
        PerceptionLMImageProcessor,
        PerceptionLMProcessor,
    )

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image|>", "<|video|>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>", {"image_token": "<|image|>", "video_token": "<|video|>"})
    config = PerceptionLMConfig(
        vision_config={
            "model_type": "timm_wrapper", "architecture": PATCHES, "hidden_size": 64, "embed_dim": 64, "do_pooling": False, "num_labels": 2,
            "model_args": {"img_size": [64, 64], "embed_dim": 64},
        },
        text_config={"model_type": "llama", **text(len(tokenizer), 0, 2, 0)}, projector_pooling_ratio=2, image_token_id=3, video_token_id=4,
    )  # fmt: skip
    images = PerceptionLMImageProcessor(tile_size=64, max_num_tiles=2, size={"height": 64, "width": 64})
    with still_images_only():
        processor = PerceptionLMProcessor(None, images, tokenizer, 16, turns("<|image|>"), 2)
    return save(PerceptionLMForConditionalGeneration(config), processor, folder)


WITH_TIMM = {"fast_vlm": tiny_fast_vlm, "gemma3n": tiny_gemma3n, "perception_lm": tiny_perception_lm}
