"""Networks of the small model: CLIP vision tower, projector and Llama, as transformers' LLaVA."""

from collections.abc import Sequence
from typing import Any

from qualm.runners.training.pictures import MEAN, STD


def build_model(tokenizer: Any, *, pixels: int, patch: int, width: int, layers: int, heads: int, vision_layers: int) -> Any:
    """Create an untrained LLaVA of hidden size `width`; weights follow from torch's seed."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=vision_layers,
        num_attention_heads=heads,
        image_size=pixels,
        patch_size=patch,
        projection_dim=width,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=8 * width // 3 // 8 * 8,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=1024,
        rms_norm_eps=1e-5,
        initializer_range=0.06,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=(pixels // patch) ** 2,
        tie_word_embeddings=False,
    )
    model = LlavaForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.linear_1.weight, std=0.06)
    torch.nn.init.normal_(model.model.multi_modal_projector.linear_2.weight, std=0.06)
    for layer in model.model.language_model.layers:  # equal queries and keys: words attend to similar words from the start
        layer.self_attn.k_proj.weight.data.copy_(layer.self_attn.q_proj.weight.data)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.bos_token_id = None
    model.generation_config.do_sample = False
    return model


def build_processor(
    tokenizer: Any, *, pixels: int, patch: int, mean: Sequence[float] = (MEAN,) * 3, std: Sequence[float] = (STD,) * 3
) -> Any:
    """Create the processor of a LLaVA; needs only Pillow.

    Args:
        pixels: side that images are resized to.
        patch: side of an image token.
        mean: of the pixels, by channel; by default those of `build_model`.
        std: standard deviation, likewise.
    """
    from transformers import LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    pictures = CLIPImageProcessorPil(
        do_resize=True,
        size={"height": pixels, "width": pixels},
        resample=3,
        do_center_crop=False,
        crop_size={"height": pixels, "width": pixels},
        do_rescale=True,
        do_normalize=True,
        image_mean=list(mean),
        image_std=list(std),
        do_convert_rgb=True,
    )
    return LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
