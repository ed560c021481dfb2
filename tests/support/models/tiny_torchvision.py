"""Tiny families whose processors need torchvision."""

from pathlib import Path

from tests.support.models.tiny_parts import bytes_tokenizer, save
from tests.support.models.tiny_recent import CHATML, turns
from tests.support.models.tiny_tiling import text, vision


def tiny_llama4(folder: Path, seed: int = 0) -> Path:
    """Tiles between marks, layers that attend within chunks of 16 tokens, one without positions, two of four experts."""
    import torch
    from transformers import Llama4Config, Llama4ForConditionalGeneration, Llama4ImageProcessor, Llama4Processor

    torch.manual_seed(seed)
    marks = ["<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>", "<|tile_y_separator|>"]
    tokenizer = bytes_tokenizer([*CHATML, *marks], "<|im_end|>", "<|endoftext|>")
    tower = {
        "hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
        "vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32, "initializer_range": 0.2,
    }  # fmt: skip
    language = text(
        len(tokenizer), 0, 2, 0, intermediate_size_mlp=64, head_dim=8, num_local_experts=4, num_experts_per_tok=1, num_hidden_layers=4,
        attention_chunk_size=16, no_rope_layer_interval=4, interleave_moe_layer_step=2,
    )  # fmt: skip
    config = Llama4Config(
        vision_config=tower, text_config=language, boi_token_index=4, eoi_token_index=5, image_token_index=6, tie_word_embeddings=False
    )
    images = Llama4ImageProcessor(size={"height": 32, "width": 32}, max_patches=4)
    processor = Llama4Processor(images, tokenizer, patch_size=8, chat_template=turns("<|image|>"))
    model = Llama4ForConditionalGeneration(config)
    with torch.no_grad():  # experts and the class and position embeddings are made empty
        for name, weight in model.named_parameters():
            if weight.ndim == 3 or "embedding" in name:
                torch.nn.init.normal_(weight, std=0.2)
    return save(model, processor, folder)


def tiny_cohere2_vision(folder: Path, seed: int = 0) -> Path:
    """Command A Vision: tiles and a thumbnail of SigLIP, a Cohere2 whose layers take turns with a sliding window."""
    import torch
    from transformers import (
        Cohere2Config,
        Cohere2VisionConfig,
        Cohere2VisionForConditionalGeneration,
        Cohere2VisionImageProcessor,
        Cohere2VisionProcessor,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    marks = {
        "image_token": "<|IMG_PATCH|>", "boi_token": "<|START_OF_IMG|>", "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }  # fmt: skip
    tokenizer = bytes_tokenizer([*CHATML, *marks.values()], "<|im_end|>", "<|endoftext|>", marks)
    config = Cohere2VisionConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=Cohere2Config(**{**text(len(tokenizer), 0, 2, 0), "tie_word_embeddings": True}, sliding_window=24, logit_scale=1.0),
        image_token_id=3, downsample_factor=2, alignment_intermediate_size=64, tie_word_embeddings=True,
    )  # fmt: skip
    images = Cohere2VisionImageProcessor(size={"height": 32, "width": 32}, max_patches=4, patch_size=2)
    processor = Cohere2VisionProcessor(images, tokenizer, chat_template=turns("<|IMG_PATCH|>"))
    return save(Cohere2VisionForConditionalGeneration(config), processor, folder)


def tiny_lfm2_vl(folder: Path, seed: int = 0) -> Path:
    """LFM2-VL: a layer of short convolutions, which keeps a state, before one of attention; SigLIP 2 at any shape."""
    import torch
    from transformers import (
        Lfm2Config,
        Lfm2VlConfig,
        Lfm2VlForConditionalGeneration,
        Lfm2VlImageProcessor,
        Lfm2VlProcessor,
        Siglip2VisionConfig,
    )

    torch.manual_seed(seed)
    marks = ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"]
    marks += [f"<|img_row_{r}_col_{c}|>" for r in range(1, 5) for c in range(1, 5)]
    tokenizer = bytes_tokenizer([*CHATML, *marks], "<|im_end|>", "<|endoftext|>", {"image_token": "<image>"})
    tower = {**vision(), "num_patches": 16, "vision_use_head": False}
    tower.pop("image_size")
    language = text(len(tokenizer), 0, 2, 0, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)
    config = Lfm2VlConfig(
        vision_config=Siglip2VisionConfig(**tower), text_config=Lfm2Config(**{**language, "tie_word_embeddings": True}),
        image_token_id=3, projector_hidden_size=64, tie_word_embeddings=True,
    )  # fmt: skip
    images = Lfm2VlImageProcessor(
        encoder_patch_size=8, tile_size=32, min_image_tokens=4, max_image_tokens=16, max_tiles=4, size={"height": 32, "width": 32}
    )
    processor = Lfm2VlProcessor(images, tokenizer, chat_template=turns("<image>"))
    return save(Lfm2VlForConditionalGeneration(config), processor, folder)


def tiny_mistral3(folder: Path, seed: int = 0) -> Path:
    """Mistral Small 3.1: Pixtral's tower with rotary positions at any shape, four patches made one, a Mistral."""
    import torch
    from transformers import (
        Mistral3Config,
        Mistral3ForConditionalGeneration,
        MistralConfig,
        PixtralImageProcessorPil,
        PixtralProcessor,
        PixtralVisionConfig,
    )

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer([*CHATML, "[IMG]", "[IMG_BREAK]", "[IMG_END]"], "<|im_end|>", "<|endoftext|>")
    config = Mistral3Config(
        vision_config=PixtralVisionConfig(**vision(image_size=64, initializer_range=0.2)),
        text_config=MistralConfig(**text(len(tokenizer), 0, 2, 0), sliding_window=None, head_dim=8),
        image_token_index=3, spatial_merge_size=2, tie_word_embeddings=False,
    )  # fmt: skip
    images = PixtralImageProcessorPil(size={"longest_edge": 64}, patch_size={"height": 8, "width": 8})
    processor = PixtralProcessor(images, tokenizer, patch_size=8, spatial_merge_size=2, chat_template=turns("[IMG]"))
    return save(Mistral3ForConditionalGeneration(config), processor, folder)


def tiny_molmo2(folder: Path, seed: int = 0) -> Path:
    """Molmo 2: overlapping crops, their patches pooled by attention, a language model with tokens in two tables."""
    import torch
    from transformers import Molmo2Config, Molmo2ForConditionalGeneration, Molmo2ImageProcessor, Molmo2Processor, Molmo2VideoProcessor

    torch.manual_seed(seed)
    marks = ["<im_start>", "<im_end>", "<im_patch>", "<im_col>", "<low_res_im_start>", "<frame_start>", "<frame_end>", "<im_low>"]
    tokenizer = bytes_tokenizer([*CHATML, *marks, "<|image|>", "<|video|>"], "<|im_end|>", "<|endoftext|>")
    ids = tokenizer.convert_tokens_to_ids(marks)
    tower = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 8, "image_size": [32, 32], "patch_size": 8, "initializer_range": 0.2,
    }  # fmt: skip
    adapter = {
        "vision_feature_layer": [-1, -2], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
        "intermediate_size": 64, "text_hidden_size": 32, "initializer_range": 0.2,
    }  # fmt: skip
    n = len(tokenizer)
    config = Molmo2Config(
        vision_config=tower, adapter_config=adapter, text_config=text(n, 0, 2, 0, head_dim=8, additional_vocab_size=8),
        image_start_token_id=ids[0], image_end_token_id=ids[1], image_patch_id=ids[2], low_res_image_start_token_id=ids[4],
        frame_start_token_id=ids[5], frame_end_token_id=ids[6], tie_word_embeddings=False,
    )  # fmt: skip
    images = Molmo2ImageProcessor(size={"height": 32, "width": 32}, patch_size=8, max_crops=4, overlap_margins=[1, 1])
    processor = Molmo2Processor(images, Molmo2VideoProcessor(), tokenizer, chat_template=turns("<|image|>"))
    return save(Molmo2ForConditionalGeneration(config), processor, folder)


def tiny_kimi_k25(folder: Path, seed: int = 0) -> Path:
    """Kimi K2.5: MoonViT at any shape, a DeepSeek-V3: latent attention, a dense layer, then experts in groups."""
    import torch
    from transformers import Kimi_K25Config, Kimi_K25ForConditionalGeneration
    from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
    from transformers.models.kimi_k25.processing_kimi_k25 import Kimi_K25Processor
    from transformers.models.kimi_k25.video_processing_kimi_k25 import Kimi_K25VideoProcessor

    torch.manual_seed(seed)
    marks = ["<|media_pad|>", "<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|kimi_k25_video_placeholder|>"]
    tokenizer = bytes_tokenizer([*CHATML, *marks], "<|im_end|>", "<|endoftext|>")
    tower = {
        "patch_size": 14, "pos_emb_height": 8, "pos_emb_width": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "hidden_size": 32,
        "intermediate_size": 64,
    }  # fmt: skip
    language = {
        **text(len(tokenizer), 0, 2, 0), "model_type": "deepseek_v3", "num_key_value_heads": 4, "moe_intermediate_size": 32,
        "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 16,
        "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_mtp_layers": 0,
    }  # fmt: skip
    config = Kimi_K25Config(
        vision_config=tower, text_config=language, projection_hidden_size=32, image_token_id=3, vision_start_token_id=4,
        vision_end_token_id=6, video_token_id=7, tie_word_embeddings=False,
    )  # fmt: skip
    images = Kimi_K25ImageProcessor(size={"max_height": 112, "max_width": 112}, max_patches=64)
    template = turns("<|media_begin|>image<|media_content|><|media_pad|><|media_end|>")
    processor = Kimi_K25Processor(images, tokenizer, Kimi_K25VideoProcessor(), chat_template=template)
    return save(Kimi_K25ForConditionalGeneration(config), processor, folder)


WITH_TORCHVISION = {
    "cohere2_vision": tiny_cohere2_vision,
    "kimi_k25": tiny_kimi_k25,
    "llama4": tiny_llama4,
    "lfm2_vl": tiny_lfm2_vl,
    "mistral3": tiny_mistral3,
    "molmo2": tiny_molmo2,
}
