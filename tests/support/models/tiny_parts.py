"""What tiny random models are put together from: tokenizers of two kinds, a chat template, and how one is saved."""

import json
from pathlib import Path

_TEXT = """what color shape is the a an there of left right front behind how many objects are in image picture cube sphere cylinder cone
red green blue yellow purple gray cyan brown small large metal rubber yes no 0 1 2 3 4 5 6 7 8 9 answer with option 's letter from given
choices directly big thing scene True False ? . , : ' i do n't know none above user assistant USER ASSISTANT Answer What How Is The There"""
WORDS = _TEXT.split()
LAST_NORMS = frozenset({"norm", "layer_norm", "embedding_norm"})
"""What the norm before the output layer is called."""


def llava_template(start: str = "", image: str = "<image>") -> str:
    """USER: ... ASSISTANT: ..., the way LLaVA 1.5 was trained."""
    return (
        start + "{% for m in messages %}{% if m['role'] == 'user' %}USER: {% for c in m['content'] %}"
        "{% if c['type'] == 'image' %}" + image + "\n{% else %}{{ c['text'] }}{% endif %}{% endfor %} "
        "{% else %}ASSISTANT: {% for c in m['content'] %}{{ c['text'] }}{% endfor %}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
    )


def words_tokenizer(extra=(), first=("<pad>", "<unk>", "<s>", "</s>", "<image>")):
    """One token per word; ' A' and 'A' are the same."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*first, *extra, *"ABCDEFGHIJ", *dict.fromkeys(WORDS)]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(dict.fromkeys(words))}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, additional_special_tokens=["<image>", *extra], **special)


def bytes_tokenizer(special: list[str], eos: str, pad: str, named: dict[str, str] | None = None, **more):
    """Byte-level BPE with a few merges; ' A' and 'A' are different tokens. `named` become attributes, as `tokenizer.image_token`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    corpus = [" ".join(WORDS)] * 3 + [f"say {x} or {x}" for x in [*"ABCDEFGHIJ", "True"]] * 9
    core.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos, pad_token=pad, extra_special_tokens=named or special, **more)


def save(model, processor, folder: Path, scale: float = 4.0) -> Path:
    """Write both; the output layer is scaled so that the next token is far from a coin toss.

    Where it is the input embedding too, a random model would only repeat its last token: there the embedding is made small beside
    what the layers add, and the last norm is scaled instead.
    """
    import torch
    from transformers.utils import PushToHubMixin

    head, inner = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    with torch.no_grad():
        if head is not inner:
            head.mul_(scale)
        else:
            inner.mul_(0.05)
            last = [m for name, m in model.get_decoder().named_modules() if name.split(".")[-1] in LAST_NORMS][-1]
            last.weight.add_(20 * scale)
        for name in ("image_token_id", "video_token_id"):  # as good as never said, as by a trained model: said, it would count as a picture
            if hasattr(model.config, name):
                head[getattr(model.config, name)] = 0
    model.save_pretrained(folder)
    if not hasattr(processor, "video_processor") or isinstance(processor.video_processor, PushToHubMixin):
        processor.save_pretrained(folder)
        return folder
    processor.tokenizer._set_processor_class(type(processor).__name__)  # what save_pretrained does, which cannot leave out the video half
    processor.tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(processor.chat_template)
    written = {k: v for k, v in processor.to_dict().items() if k != "video_processor"}
    (folder / "processor_config.json").write_text(json.dumps(written, indent=2))
    return folder
