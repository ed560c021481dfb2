"""Random vision-language models of a few thousand weights, saved to disk as a published one would be.

They answer nonsense, but by the same code paths as the real families: image tokens, merging, positions, padding.
"""

from pathlib import Path

from runners.models._still_images import still_images_only

_TEXT = """what color shape is the a an there of left right front behind how many objects are in image picture cube sphere cylinder cone
red green blue yellow purple gray cyan brown small large metal rubber yes no 0 1 2 3 4 5 6 7 8 9 answer with option 's letter from given
choices directly big thing scene ? . , : ' i do n't know none above user assistant USER ASSISTANT Answer What How Is The There"""
WORDS = _TEXT.split()


def llava_template(start: str = "", image: str = "<image>") -> str:
    """USER: ... ASSISTANT: ..., the way LLaVA 1.5 was trained."""
    return (
        start + "{% for m in messages %}{% if m['role'] == 'user' %}USER: {% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}" + image + "\n{% else %}{{ c['text'] }}{% endif %}{% endfor %} "
        "{% else %}ASSISTANT: {% for c in m['content'] %}{{ c['text'] }}{% endfor %}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
    )


def words_tokenizer(extra=()):
    """One token per word; ' A' and 'A' are the same."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<unk>", "<s>", "</s>", "<image>", *extra, *"ABCDEFGHIJ", *dict.fromkeys(WORDS)]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(dict.fromkeys(words))}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=["<image>", *extra], **special)


def bytes_tokenizer(special: list[str], eos: str, pad: str):
    """Byte-level BPE with a few merges; ' A' and 'A' are different tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    corpus = [" ".join(WORDS)] * 3 + [f"say {x} or {x}" for x in "ABCDEFGHIJ"] * 5
    core.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos, pad_token=pad, additional_special_tokens=special)


def save(model, processor, folder: Path, scale: float = 4.0) -> Path:
    """Write both; the output layer is scaled so that the next token is far from a coin toss."""
    import torch

    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    model.save_pretrained(folder)
    if not hasattr(processor, "video_processor"):
        processor.save_pretrained(folder)
        return folder
    processor.image_processor.save_pretrained(folder)  # transformers cannot save a processor whose video half is absent
    processor.tokenizer.chat_template = processor.chat_template
    processor.tokenizer.save_pretrained(folder)
    return folder


def tiny_llava(folder: Path, seed: int = 0, width: int = 32, layers: int = 2) -> Path:
    """CLIP tower and Llama, 16 image tokens of 8 pixels in 32 x 32."""
    import torch
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(seed)
    tokenizer = words_tokenizer()
    vision = CLIPVisionConfig(
        hidden_size=width, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=2, eos_token_id=3, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default", vision_feature_layer=-1, tie_word_embeddings=False,
    )  # fmt: skip
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=llava_template(),
    )  # fmt: skip
    return save(LlavaForConditionalGeneration(config), processor, folder)


def tiny_qwen2_vl(folder: Path, seed: int = 0) -> Path:
    """Three-axis rotary positions and images of any size: where padding goes wrong first."""
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLImageProcessorPil, Qwen2VLProcessor

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|endoftext|>")
    ids = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"],
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4},
            "initializer_range": 0.3,
        },
        vision_config={"embed_dim": 32, "hidden_size": 32, "depth": 2, "num_heads": 2, "patch_size": 14, "mlp_ratio": 2},
        image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    images = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16)
    with still_images_only():
        processor = Qwen2VLProcessor(images, tokenizer, None, chat_template=template)
    return save(Qwen2VLForConditionalGeneration(config), processor, folder)


def tiny_idefics3(folder: Path, seed: int = 0) -> Path:
    """Images cut into a grid of tiles plus the whole."""
    import torch
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3ImageProcessorPil, Idefics3Processor, LlamaConfig

    torch.manual_seed(seed)
    special = ["<|endoftext|>", "<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    special += [f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4)]
    tokenizer = bytes_tokenizer(special, "<end_of_utterance>", "<|endoftext|>")
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=0, eos_token_id=3, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    config = Idefics3Config(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<image>"), scale_factor=2, pad_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    template = (
        "<|endoftext|>{% for m in messages %}{{ m['role'] | capitalize }}:{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
        "{% else %} {{ c['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}"
    )
    images = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template)
    return save(Idefics3ForConditionalGeneration(config), processor, folder)


FAMILIES = {"llava": tiny_llava, "qwen2_vl": tiny_qwen2_vl, "idefics3": tiny_idefics3}


def tiny_llm(folder: Path, seed: int = 0) -> Path:
    """A causal language model that reads text only: a Llama of two layers with a chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = bytes_tokenizer(special, "<|im_end|>", "<|pad|>")
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.3, tie_word_embeddings=False,
    )  # fmt: skip
    return save(LlamaForCausalLM(config), tokenizer, folder)
