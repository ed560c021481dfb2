"""Tiny families whose attention or text is unusual: Gemma 3 (windows), PaliGemma (a prompt read both ways), Kosmos-2 (no placeholder)."""

from pathlib import Path

from tests.support.models.tiny_parts import bytes_tokenizer, save, words_tokenizer
from tests.support.models.tiny_tiling import text, vision

PALIGEMMA_TEMPLATE = (
    "{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% if not loop.last %}\n{% endif %}{% endfor %}"
)
"""Published without one: the picture, then the text; the processor writes the rest."""

KOSMOS2_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}Question: {% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}"
    "{% endfor %} Answer:{% else %} {% for c in m['content'] %}{{ c['text'] }}{% endfor %} {% endif %}{% endfor %}"
)
"""Published without one, as its paper asks questions; the processor puts the picture before all text."""


def tiny_gemma3(folder: Path, seed: int = 0) -> Path:
    """Windows of 24 tokens in one layer of two, image tokens that see each other both ways."""
    import torch
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessorPil, Gemma3Processor, SiglipVisionConfig

    torch.manual_seed(seed)
    special = ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    named = {"boi_token": special[5], "eoi_token": special[6], "image_token": special[7]}
    tokenizer = bytes_tokenizer(special, "<eos>", "<pad>", named, bos_token="<bos>")
    config = Gemma3Config(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=text(
            len(tokenizer), 2, 1, 0, head_dim=8, query_pre_attn_scalar=8, sliding_window=24, tie_word_embeddings=True,
            layer_types=["sliding_attention", "full_attention"], initializer_range=0.2,
        ),
        mm_tokens_per_image=4, boi_token_index=5, eoi_token_index=6, image_token_index=7, tie_word_embeddings=True,
        eos_token_id=[1, 4],
    )  # fmt: skip
    template = (
        "<bos>{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}<start_of_image>{% else %}{{ c['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    )
    processor = Gemma3Processor(
        Gemma3ImageProcessorPil(size={"height": 32, "width": 32}, image_seq_length=4), tokenizer, chat_template=template, image_seq_length=4
    )
    model = Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.3)  # zeros, without weights of its own
    return save(model, processor, folder)


def tiny_paligemma(folder: Path, seed: int = 0) -> Path:
    """The whole prompt sees itself both ways; the processor ends it with a line break and wants a picture."""
    import torch
    from transformers import (
        GemmaConfig,
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        SiglipImageProcessorPil,
        SiglipVisionConfig,
    )

    torch.manual_seed(seed)
    special = ["<pad>", "<eos>", "<bos>", "<image>"]
    tokenizer = bytes_tokenizer(special, "<eos>", "<pad>", {"image_token": "<image>"}, bos_token="<bos>")
    images = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    images.image_seq_length = 16
    processor = PaliGemmaProcessor(images, tokenizer, chat_template=PALIGEMMA_TEMPLATE)
    config = PaliGemmaConfig(
        vision_config=SiglipVisionConfig(**vision(vision_use_head=False)),
        text_config=GemmaConfig(**text(len(tokenizer), 2, 1, 0, head_dim=8, tie_word_embeddings=True, initializer_range=0.2)),
        image_token_index=3, projection_dim=32, hidden_size=32, tie_word_embeddings=True,
    )  # fmt: skip
    return save(PaliGemmaForConditionalGeneration(config), processor, folder)


def tiny_kosmos2(folder: Path, seed: int = 0) -> Path:
    """64 latent queries before the text, positions counted from the tokens that are not padding, no chat template."""
    import torch
    from transformers import CLIPImageProcessorPil, Kosmos2Config, Kosmos2ForConditionalGeneration, Kosmos2Processor

    torch.manual_seed(seed + 3)
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = Kosmos2Processor(images, words_tokenizer(first=("<s>", "<pad>", "</s>", "<unk>")), 16)
    tokenizer = processor.tokenizer
    config = Kosmos2Config(
        text_config={
            "vocab_size": len(tokenizer), "max_position_embeddings": 512, "embed_dim": 32, "layers": 2, "ffn_dim": 64,
            "attention_heads": 4, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "init_std": 0.3,
        },
        vision_config=vision(), latent_query_num=64,
    )  # fmt: skip
    return save(Kosmos2ForConditionalGeneration(config), processor, folder)
