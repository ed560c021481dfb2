"""Tiny mixtures of experts, GLM-4.6V, DeepSeek-VL hybrid: which experts read a token must not depend on the batch."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save
from tests.support.models.tiny_qwens import TEMPLATE, tokens
from tests.support.models.tiny_qwens import text as qwen_text
from tests.support.models.tiny_recent import CHATML, GLM, turns
from tests.support.models.tiny_tiling import text, vision


def tiny_qwen3_vl_moe(folder: Path, seed: int = 0) -> Path:
    """Qwen3-VL with two of four experts for each token."""
    import torch
    from transformers import Qwen2VLImageProcessorPil, Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration, Qwen3VLProcessor

    torch.manual_seed(seed)
    tokenizer, ids = tokens()
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4, "mrope_interleaved": True}
    tower = {
        "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 16, "out_hidden_size": 32,
        "num_position_embeddings": 16, "deepstack_visual_indexes": [0], "initializer_range": 0.2,
    }  # fmt: skip
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1}
    language = qwen_text(tokenizer, head_dim=8, rope_parameters=rope, **experts)
    images = Qwen2VLImageProcessorPil(min_pixels=32 * 32, max_pixels=32 * 32 * 16, patch_size=16)
    with still_images_only():
        processor = Qwen3VLProcessor(images, tokenizer, None, chat_template=TEMPLATE)
    config = Qwen3VLMoeConfig(text_config=language, vision_config=tower, **ids)
    return save(Qwen3VLMoeForConditionalGeneration(config), processor, folder)


def tiny_glm4v_moe(folder: Path, seed: int = 0) -> Path:
    """GLM-4.5V: GLM-4.1V with a dense layer, then one of experts in groups and a shared one."""
    import torch
    from transformers import Glm4vImageProcessorPil, Glm4vMoeConfig, Glm4vMoeForConditionalGeneration, Glm4vProcessor

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer(GLM, "<|im_end|>", "<|endoftext|>", {"image_token": "<|image|>", "video_token": "<|video|>"})
    tokenizer.add_special_tokens({"additional_special_tokens": GLM[4:6] + GLM[7:]})
    image, begin, end, video, begin_video, end_video = tokenizer.convert_tokens_to_ids(GLM[3:])
    tower = {
        "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 14, "out_hidden_size": 32, "image_size": 56,
        "initializer_range": 0.2,
    }  # fmt: skip
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4, "partial_rotary_factor": 1.0}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}
    config = Glm4vMoeConfig(
        text_config=qwen_text(tokenizer, rope_parameters=rope, head_dim=8, tie_word_embeddings=False, first_k_dense_replace=1, **experts),
        vision_config=tower, image_token_id=image, video_token_id=video, image_start_token_id=begin, image_end_token_id=end,
        video_start_token_id=begin_video, video_end_token_id=end_video, tie_word_embeddings=False,
    )  # fmt: skip
    images = Glm4vImageProcessorPil(size={"shortest_edge": 28 * 28 * 2, "longest_edge": 28 * 28 * 16 * 2})
    with still_images_only():
        processor = Glm4vProcessor(images, tokenizer, None, chat_template=turns("<|begin_of_image|><|image|><|end_of_image|>"))
    return save(Glm4vMoeForConditionalGeneration(config), processor, folder)


def tiny_glm46v(folder: Path, seed: int = 0) -> Path:
    """GLM-4.6V: GLM-4.1V's tower and language model, a processor of its own."""
    import torch
    from transformers import Glm46VConfig, Glm46VForConditionalGeneration, Glm46VImageProcessorPil, Glm46VProcessor

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer(GLM, "<|im_end|>", "<|endoftext|>", {"image_token": "<|image|>", "video_token": "<|video|>"})
    tokenizer.add_special_tokens({"additional_special_tokens": GLM[4:6] + GLM[7:]})
    image, begin, end, video, begin_video, end_video = tokenizer.convert_tokens_to_ids(GLM[3:])
    tower = {
        "model_type": "glm4v_vision", "hidden_size": 32, "intermediate_size": 64, "depth": 2, "num_heads": 2, "patch_size": 14,
        "out_hidden_size": 32, "image_size": 56, "initializer_range": 0.2,
    }  # fmt: skip
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4, "partial_rotary_factor": 1.0}
    language = {**qwen_text(tokenizer, rope_parameters=rope, head_dim=8, tie_word_embeddings=False), "model_type": "glm4v_text"}
    config = Glm46VConfig(
        text_config=language, vision_config=tower, image_token_id=image, video_token_id=video, image_start_token_id=begin,
        image_end_token_id=end, video_start_token_id=begin_video, video_end_token_id=end_video, tie_word_embeddings=False,
    )  # fmt: skip
    images = Glm46VImageProcessorPil(size={"shortest_edge": 28 * 28 * 2, "longest_edge": 28 * 28 * 16 * 2})
    with still_images_only():
        processor = Glm46VProcessor(images, tokenizer, None, chat_template=turns("<|begin_of_image|><|image|><|end_of_image|>"))
    return save(Glm46VForConditionalGeneration(config), processor, folder)


def tiny_aria(folder: Path, seed: int = 0) -> Path:
    """A resampler brings a picture down to four tokens, two of four experts read each."""
    import torch
    from transformers import AriaConfig, AriaForConditionalGeneration, AriaImageProcessorPil, AriaProcessor, AriaTextConfig

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer([*CHATML, "<|img|>"], "<|im_end|>", "<|endoftext|>", {"image_token": "<|img|>"})
    experts = {"moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}
    config = AriaConfig(
        vision_config={**vision(image_size=980, patch_size=14), "model_type": "idefics3_vision"},
        text_config=AriaTextConfig(**text(len(tokenizer), 0, 2, 0), **experts),
        projector_patch_to_query_dict={4900: 4}, image_token_index=3, tie_word_embeddings=False,
    )  # fmt: skip
    images = AriaImageProcessorPil(max_image_size=980, min_image_size=336)
    processor = AriaProcessor(images, tokenizer, size_conversion={980: 4}, chat_template=turns("<|img|>"))
    return save(AriaForConditionalGeneration(config), processor, folder)


def tiny_deepseek_vl_hybrid(folder: Path, seed: int = 0) -> Path:
    """DeepSeek-VL with a second tower for the picture at a high resolution (SAM), whose features stand beside the first's."""
    import torch
    from transformers import (
        DeepseekVLHybridConfig,
        DeepseekVLHybridForConditionalGeneration,
        DeepseekVLHybridImageProcessorPil,
        DeepseekVLHybridProcessor,
        LlamaConfig,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer([*CHATML, "<image_placeholder>"], "<|im_end|>", "<|endoftext|>", {"image_token": "<image_placeholder>"})
    sam = {
        "model_type": "sam_vision_model", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 128,
        "patch_size": 16, "output_channels": 16, "window_size": 4, "global_attn_indexes": [1], "mlp_dim": 64,
    }  # fmt: skip
    config = DeepseekVLHybridConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)), high_res_vision_config=sam,
        text_config=LlamaConfig(**text(len(tokenizer), 0, 2, 0)), image_token_id=3, tie_word_embeddings=False,
    )  # fmt: skip
    images = DeepseekVLHybridImageProcessorPil(size={"height": 32, "width": 32}, high_res_size={"height": 128, "width": 128}, min_size=8)
    processor = DeepseekVLHybridProcessor(images, tokenizer, num_image_tokens=16, chat_template=turns("<image_placeholder>"))
    return save(DeepseekVLHybridForConditionalGeneration(config), processor, folder)


EXPERTS = {
    "aria": tiny_aria,
    "deepseek_vl_hybrid": tiny_deepseek_vl_hybrid,
    "glm46v": tiny_glm46v,
    "glm4v_moe": tiny_glm4v_moe,
    "qwen3_vl_moe": tiny_qwen3_vl_moe,
}
