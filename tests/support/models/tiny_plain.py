"""Tiny families whose cache cannot be branched: pictures by cross-attention, an encoder, linear attention."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save
from tests.support.models.tiny_qwens import TEMPLATE, text, tokens


def tiny_mllama(folder: Path, seed: int = 0) -> Path:
    """Llama 3.2 Vision: every second layer attends to the picture's tiles, none of which is a token."""
    import torch
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessorPil, MllamaProcessor

    torch.manual_seed(seed)
    special = ["<|begin_of_text|>", "<|eot_id|>", "<|pad|>", "<|image|>", "<|python_tag|>", "<|start_header_id|>", "<|end_header_id|>"]
    tokenizer = bytes_tokenizer(special, "<|eot_id|>", "<|pad|>", bos_token="<|begin_of_text|>")
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    language = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "cross_attention_layers": [1, 3], "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2, "initializer_range": 0.3, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }  # fmt: skip
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 4, "image_size": 32,
        "patch_size": 8, "max_num_tiles": 2, "intermediate_layers_indices": [0], "vision_output_dim": 64, "initializer_range": 0.2,
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
    }  # fmt: skip
    config = MllamaConfig(vision_config=vision, text_config=language, image_token_index=image)
    template = (
        "{% for m in messages %}{% if loop.first %}<|begin_of_text|>{% endif %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
        "{% for c in m['content'] %}{% if c['type'] == 'image' %}<|image|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|eot_id|>"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    )
    images = MllamaImageProcessorPil(size={"height": 32, "width": 32}, max_image_tiles=2)
    processor = MllamaProcessor(images, tokenizer, chat_template=template)
    module = MllamaForConditionalGeneration(config)
    with torch.no_grad():  # closed gates would hide the picture
        for name, weight in module.named_parameters():
            if "gate" in name and weight.numel() == 1:
                weight.fill_(1.0)
    return save(module, processor, folder)


_QWEN3_5_TOWER = {
    "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 16, "out_hidden_size": 32,
    "num_position_embeddings": 16, "initializer_range": 0.2,
}  # fmt: skip


def _linear(tokenizer):
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4, "mrope_interleaved": True, "partial_rotary_factor": 1.0}
    return text(
        tokenizer, head_dim=8, rope_parameters=rope, layer_types=["linear_attention", "full_attention"], linear_key_head_dim=8,
        linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, tie_word_embeddings=False,
    )  # fmt: skip


def tiny_qwen3_5(folder: Path, seed: int = 0) -> Path:
    """A layer of linear attention, which keeps a state, before one of attention."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3VLProcessor

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    config = Qwen3_5Config(text_config=_linear(tokenizer), vision_config=_QWEN3_5_TOWER, tie_word_embeddings=False, **ids)
    images = Qwen2VLImageProcessorPil(min_pixels=32 * 32, max_pixels=32 * 32 * 16, patch_size=16)
    with still_images_only():
        processor = Qwen3VLProcessor(images, tokenizer, None, chat_template=TEMPLATE)
    return save(Qwen3_5ForConditionalGeneration(config), processor, folder)


def tiny_qwen3_5_moe(folder: Path, seed: int = 0) -> Path:
    """Qwen3.5 with two of four experts for each token beside a shared one."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration, Qwen3VLProcessor

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
    config = Qwen3_5MoeConfig(text_config={**_linear(tokenizer), **experts}, vision_config=_QWEN3_5_TOWER, tie_word_embeddings=False, **ids)
    images = Qwen2VLImageProcessorPil(min_pixels=32 * 32, max_pixels=32 * 32 * 16, patch_size=16)
    with still_images_only():
        processor = Qwen3VLProcessor(images, tokenizer, None, chat_template=TEMPLATE)
    return save(Qwen3_5MoeForConditionalGeneration(config), processor, folder)


def tiny_florence2(folder: Path, seed: int = 0) -> Path:
    """DaViT and a BART: an encoder reads picture and prompt, a decoder writes."""
    import torch
    from transformers import CLIPImageProcessorPil, Florence2Config, Florence2ForConditionalGeneration, Florence2Processor

    torch.manual_seed(seed)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<image>"]
    tokenizer = bytes_tokenizer(special, "</s>", "<pad>", {"image_token": "<image>"}, bos_token="<s>")
    language = {
        "model_type": "bart", "vocab_size": len(tokenizer), "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "init_std": 0.3,
        "max_position_embeddings": 512, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        "is_encoder_decoder": True,
    }  # fmt: skip
    vision = {
        "embed_dim": [16, 32], "depths": [1, 1], "num_heads": [2, 4], "num_groups": [2, 4], "patch_size": [7, 3], "patch_stride": [4, 2],
        "patch_padding": [3, 1], "patch_prenorm": [False, True], "window_size": 4, "projection_dim": 32, "drop_path_rate": 0.0,
        "max_position_embeddings": 16, "max_temporal_embeddings": 4,
    }  # fmt: skip
    language["tie_word_embeddings"] = False
    config = Florence2Config(
        text_config=language, vision_config=vision, image_token_id=4, is_encoder_decoder=True, tie_word_embeddings=False
    )
    images = CLIPImageProcessorPil(size={"height": 32, "width": 32}, do_center_crop=False)
    images.image_seq_length = 17
    processor = Florence2Processor(images, tokenizer)
    return save(Florence2ForConditionalGeneration(config), processor, folder)


FLORENCE2_TEMPLATE = (
    "{% for m in messages %}{% for c in m['content'] if c['type'] == 'text' %}{% if m['role'] == 'user' %}Question: {{ c['text'] }} Answer:"
    "{% else %} {{ c['text'] }} {% endif %}{% endfor %}{% endfor %}"
)
"""Its processor puts the mark of the picture before the prompt by itself, and holds no template."""
