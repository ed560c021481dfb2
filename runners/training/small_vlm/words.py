"""A word-level tokenizer over the words of the scenes' questions, saved and loaded like any other of transformers.

One word is one token, so that every option letter and every answer word has an id of its own. Words it does not know
(a typo, a foreign question) become `<unk>`: any text can be asked.
"""

import re
from collections.abc import Iterable
from typing import Any

IMAGE, USER, ASSISTANT, END, PAD, UNKNOWN = "<image>", "<user>", "<assistant>", "</s>", "<pad>", "<unk>"
SPECIAL = (PAD, UNKNOWN, END, USER, ASSISTANT, IMAGE)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<assistant>' if message['role'] == 'assistant' else '<user>' -}}"
    "{%- if message['content'] is string -%}{{- message['content'] -}}{%- else -%}"
    "{%- for part in message['content'] -%}"
    "{{- '<image>' if part['type'] == 'image' else part['text'] -}}"
    "{%- endfor -%}{%- endif -%}"
    "{{- '</s>' if message['role'] == 'assistant' else '' -}}"
    "{%- endfor -%}"
    "{{- '<assistant>' if add_generation_prompt else '' -}}"
)

_WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")


def split_words(text: str) -> list[str]:
    """Letters together; every digit and every other mark alone. What the tokenizer does, for building its vocabulary."""
    return _WORD.findall(text)


def build_tokenizer(texts: Iterable[str]) -> Any:
    """A `PreTrainedTokenizerFast` that knows the words of `texts`; ids do not depend on their order."""
    from tokenizers import Regex, Tokenizer, decoders
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for text in texts for word in split_words(text)})
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate((*SPECIAL, *words))}, unk_token=UNKNOWN))
    inner.pre_tokenizer = Split(Regex(_WORD.pattern), "removed", invert=True)
    joined = [decoders.WordPiece(prefix="\0", cleanup=False), decoders.Fuse()]  # words with a space between them
    marks = [decoders.Replace(f" {mark}", mark) for mark in ".,?!:"]
    inner.decoder = decoders.Sequence([*joined, *marks, decoders.Replace(" ' ", "'")])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, IMAGE],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
