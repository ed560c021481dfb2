"""Tiny families that cut a picture into tiles: how many image tokens it takes depends on its shape."""

from pathlib import Path

from qualm.runners.inference.hf.still_images import still_images_only
from tests.support.models.tiny_parts import bytes_tokenizer, save, words_tokenizer

TILES = [[32, 64], [64, 32], [64, 64], [96, 32], [32, 96]]
"""Height and width that a picture may be laid out on, of tiles of 32 x 32."""


def vision(**changes):
    """A vision tower of two layers: 16 patches of 8 pixels in 32 x 32."""
    small = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    return {**small, **changes}


def text(vocab_size: int, bos: int, eos: int, pad: int, **changes):
    """A language model of two layers with two heads of keys and values."""
    small = {
        "vocab_size": vocab_size, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 2048, "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad,
        "initializer_range": 0.3, "tie_word_embeddings": False,
    }  # fmt: skip
    return {**small, **changes}


def tiny_llava_next(folder: Path, seed: int = 0) -> Path:
    """LLaVA 1.6: CLIP, a Mistral, tiles of any shape without their borders, a learned end of line."""
    import torch
    from transformers import (
        CLIPVisionConfig,
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessorPil,
        LlavaNextProcessor,
        MistralConfig,
    )

    torch.manual_seed(seed)
    tokenizer = words_tokenizer(["[INST]", "[/INST]"])
    config = LlavaNextConfig(
        vision_config=CLIPVisionConfig(**vision()), text_config=MistralConfig(**text(len(tokenizer), 2, 3, 0), sliding_window=None),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"), image_grid_pinpoints=TILES, vision_feature_layer=-2,
    )  # fmt: skip
    template = (
        "<s>{% for m in messages %}{% if m['role'] == 'user' %}[INST] {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n"
        "{% else %}{{ c['text'] }}{% endif %}{% endfor %} [/INST]{% else %}{% for c in m['content'] %} {{ c['text'] }}{% endfor %}</s>"
        "{% endif %}{% endfor %}"
    )
    images = LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, image_grid_pinpoints=TILES, do_pad=True
    )
    processor = LlavaNextProcessor(
        images, tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=template
    )
    return save(LlavaNextForConditionalGeneration(config), processor, folder)


def tiny_llava_onevision(folder: Path, seed: int = 0) -> Path:
    """SigLIP without a class token, a Qwen2, and tiles that are shrunk where they are too many."""
    import torch
    from transformers import (
        LlavaOnevisionConfig,
        LlavaOnevisionForConditionalGeneration,
        LlavaOnevisionImageProcessorPil,
        LlavaOnevisionProcessor,
        Qwen2Config,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>")
    config = LlavaOnevisionConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=Qwen2Config(**text(len(tokenizer), 0, 2, 0)), image_token_index=3, video_token_index=4,
        image_grid_pinpoints=TILES, vision_aspect_ratio="anyres_max_3",
    )  # fmt: skip
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }} {% for c in m['content'] if c['type'] == 'image' %}<image>{% endfor %}"
        "{{ '\\n' }}"
        "{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    images = LlavaOnevisionImageProcessorPil(size={"height": 32, "width": 32}, image_grid_pinpoints=TILES)
    with still_images_only():
        processor = LlavaOnevisionProcessor(
            images, tokenizer, None, num_image_tokens=16, vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_3",
            chat_template=template,
        )  # fmt: skip
    return save(LlavaOnevisionForConditionalGeneration(config), processor, folder)


def tiny_internvl(folder: Path, seed: int = 0) -> Path:
    """One to four tiles and a thumbnail, four tokens each after the pixels are shuffled together."""
    import torch
    from transformers import (
        GotOcr2ImageProcessorPil,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVisionConfig,
        Qwen2Config,
    )

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
    named = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>", named)
    config = InternVLConfig(
        vision_config=InternVLVisionConfig(**vision(use_mean_pooling=True, initializer_range=0.2)),
        text_config=Qwen2Config(**text(len(tokenizer), 0, 2, 0)), image_token_id=5, image_seq_length=4, tie_word_embeddings=False,
    )  # fmt: skip
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}<IMG_CONTEXT>\n"
        "{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    images = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, crop_to_patches=True, min_patches=1, max_patches=4)
    with still_images_only():
        processor = InternVLProcessor(images, tokenizer, None, image_seq_length=4, chat_template=template)
    return save(InternVLForConditionalGeneration(config), processor, folder)


def tiny_smolvlm(folder: Path, seed: int = 0) -> Path:
    """SmolVLM2: Idefics3's grid of tiles, a Llama whose output layer is its input embedding."""
    import torch
    from transformers import LlamaConfig, SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMImageProcessorPil, SmolVLMProcessor

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    special += [f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4)]
    named = {
        "fake_image_token": special[2],
        "image_token": "<image>",
        "end_of_utterance_token": special[4],
        "global_image_token": special[5],
    }
    tokenizer = bytes_tokenizer(special, "<end_of_utterance>", "<|endoftext|>", named)
    config = SmolVLMConfig(
        vision_config=vision(), text_config=LlamaConfig(**text(len(tokenizer), 1, 4, 0, tie_word_embeddings=True)),
        image_token_id=3, scale_factor=2, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    template = (
        "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
        "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
        "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
    )
    images = SmolVLMImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    with still_images_only():
        processor = SmolVLMProcessor(images, tokenizer, None, image_seq_len=4, chat_template=template)
    return save(SmolVLMForConditionalGeneration(config), processor, folder)
