"""Tiny families that came later, or are asked less: they are examined apart, since all together would take minutes."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, llava_template, save, words_tokenizer
from tests.support.models.tiny_qwens import text as qwen_text
from tests.support.models.tiny_tiling import text, vision


def turns(image: str) -> str:
    """ChatML, a picture written as `image`."""
    return (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
        + image
        + "{% else %}"
        "{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
GLM = [*CHATML, "<|image|>", "<|begin_of_image|>", "<|end_of_image|>", "<|video|>", "<|begin_of_video|>", "<|end_of_video|>"]


def tiny_aya_vision(folder: Path, seed: int = 0) -> Path:
    """Tiles and a thumbnail between marks of their own, a Cohere2 whose layers take turns with a sliding window."""
    import torch
    from transformers import (
        AyaVisionConfig,
        AyaVisionForConditionalGeneration,
        AyaVisionProcessor,
        Cohere2Config,
        GotOcr2ImageProcessorPil,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    special = [
        *CHATML,
        "<image>",
        "<|START_OF_IMG|>",
        "<|END_OF_IMG|>",
        "<|IMG_PATCH|>",
        "<|IMG_LINE_BREAK|>",
        "TILE_GLOBAL",
        *[f"TILE_{i}" for i in range(1, 7)],
    ]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>")
    config = AyaVisionConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=Cohere2Config(**{**text(len(tokenizer), 0, 2, 0), "tie_word_embeddings": True}, sliding_window=512, logit_scale=1.0),
        image_token_index=6,
        downsample_factor=2,
        vision_feature_layer=-1,
        alignment_intermediate_size=64,
        tie_word_embeddings=True,
    )
    images = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4)
    processor = AyaVisionProcessor(images, tokenizer, patch_size=8, img_size=32, downsample_factor=2, chat_template=turns("<image>"))
    return save(AyaVisionForConditionalGeneration(config), processor, folder)


def tiny_deepseek_vl(folder: Path, seed: int = 0) -> Path:
    """SigLIP and a Llama, 16 image tokens of a padded square."""
    import torch
    from transformers import (
        DeepseekVLConfig,
        DeepseekVLForConditionalGeneration,
        DeepseekVLImageProcessorPil,
        DeepseekVLProcessor,
        LlamaConfig,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    tokenizer = bytes_tokenizer([*CHATML, "<image_placeholder>"], "<|im_end|>", "<|endoftext|>", {"image_token": "<image_placeholder>"})
    config = DeepseekVLConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=LlamaConfig(**text(len(tokenizer), 0, 2, 0)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image_placeholder>"),
        tie_word_embeddings=False,
    )
    images = DeepseekVLImageProcessorPil(size={"height": 32, "width": 32}, min_size=8)
    processor = DeepseekVLProcessor(images, tokenizer, num_image_tokens=16, chat_template=turns("<image_placeholder>"))
    return save(DeepseekVLForConditionalGeneration(config), processor, folder)


def tiny_glm4v(folder: Path, seed: int = 0) -> Path:
    """GLM-4.1V: a tower with rotary positions in two axes, a GLM-4 with norms on both sides."""
    import torch
    from transformers import Glm4vConfig, Glm4vForConditionalGeneration, Glm4vImageProcessorPil, Glm4vProcessor

    torch.manual_seed(seed)
    named = {"image_token": "<|image|>", "video_token": "<|video|>"}
    tokenizer = bytes_tokenizer(GLM, "<|im_end|>", "<|endoftext|>", named)
    tokenizer.add_special_tokens({"additional_special_tokens": GLM[4:6] + GLM[7:]})
    tower = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "depth": 2,
        "num_heads": 2,
        "patch_size": 14,
        "out_hidden_size": 32,
        "image_size": 56,
        "initializer_range": 0.2,
    }
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4, "partial_rotary_factor": 1.0}
    config = Glm4vConfig(
        text_config=qwen_text(tokenizer, rope_parameters=rope, head_dim=8, tie_word_embeddings=False),
        vision_config=tower,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
        image_start_token_id=tokenizer.convert_tokens_to_ids(GLM[4]),
        image_end_token_id=tokenizer.convert_tokens_to_ids(GLM[5]),
        video_start_token_id=tokenizer.convert_tokens_to_ids(GLM[7]),
        video_end_token_id=tokenizer.convert_tokens_to_ids(GLM[8]),
        tie_word_embeddings=False,
    )
    images = Glm4vImageProcessorPil(size={"shortest_edge": 28 * 28 * 2, "longest_edge": 28 * 28 * 16 * 2})
    with still_images_only():
        processor = Glm4vProcessor(images, tokenizer, None, chat_template=turns("<|begin_of_image|><|image|><|end_of_image|>"))
    return save(Glm4vForConditionalGeneration(config), processor, folder)


def tiny_idefics2(folder: Path, seed: int = 0) -> Path:
    """A resampler brings any picture down to four tokens, a Mistral reads them."""
    import torch
    from transformers import Idefics2Config, Idefics2ForConditionalGeneration, Idefics2ImageProcessorPil, Idefics2Processor, MistralConfig

    torch.manual_seed(seed)
    special = [*CHATML, "<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    tokenizer = bytes_tokenizer(
        special,
        "<|im_end|>",
        "<|endoftext|>",
        {"image_token": "<image>", "image_boundary_token": special[3], "end_of_utterance_token": special[5]},
    )
    config = Idefics2Config(
        vision_config=vision(),
        perceiver_config={
            "hidden_size": 32,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 4,
            "resampler_head_dim": 8,
            "num_key_value_heads": 2,
        },
        text_config=MistralConfig(**text(len(tokenizer), 0, 2, 0), sliding_window=None),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=False,
    )
    images = Idefics2ImageProcessorPil(size={"shortest_edge": 24, "longest_edge": 32}, do_image_splitting=False)
    processor = Idefics2Processor(images, tokenizer, image_seq_len=4, chat_template=turns("<image>"))
    return save(Idefics2ForConditionalGeneration(config), processor, folder)


def tiny_ovis2(folder: Path, seed: int = 0) -> Path:
    """Pictures as words of a table of their own, chosen softly, a Qwen2."""
    import torch
    from transformers import Ovis2Config, Ovis2ForConditionalGeneration, Ovis2ImageProcessorPil, Ovis2Processor, Qwen2Config

    torch.manual_seed(seed)
    special = [*CHATML, "<image>", "<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>")
    ids = tokenizer.convert_tokens_to_ids(special)
    config = Ovis2Config(
        vision_config=vision(num_visual_indicator_tokens=5, vocab_size=64, hidden_stride=2, initializer_range=0.2),
        text_config=Qwen2Config(**text(len(tokenizer), 0, 2, 0)),
        image_token_id=ids[4],
        visual_indicator_token_ids=ids[5:],
        vocab_size=len(tokenizer),
        hidden_size=32,
        tie_word_embeddings=False,
    )
    images = Ovis2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4)
    processor = Ovis2Processor(images, tokenizer, image_seq_length=4, chat_template=turns("<image>"))
    return save(Ovis2ForConditionalGeneration(config), processor, folder)


def tiny_vipllava(folder: Path, seed: int = 0) -> Path:
    """ViP-LLaVA: features of several layers of a CLIP tower side by side."""
    import torch
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaProcessor,
        VipLlavaConfig,
        VipLlavaForConditionalGeneration,
    )

    torch.manual_seed(seed)
    tokenizer = words_tokenizer()
    config = VipLlavaConfig(
        vision_config=CLIPVisionConfig(**vision()),
        text_config=LlamaConfig(**text(len(tokenizer), 2, 3, 0)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layers=[-1, -2],
        tie_word_embeddings=False,
    )
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=llava_template(),
    )
    return save(VipLlavaForConditionalGeneration(config), processor, folder)


RECENT = {
    "aya_vision": tiny_aya_vision,
    "deepseek_vl": tiny_deepseek_vl,
    "glm4v": tiny_glm4v,
    "idefics2": tiny_idefics2,
    "ovis2": tiny_ovis2,
    "vipllava": tiny_vipllava,
}
