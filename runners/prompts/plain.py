"""Plain text of replies: without thinking, chat tokens, HTML, LaTeX and outer quotes.

Emphasis of HTML and LaTeX becomes Markdown, which `qualm.runners.prompts.bare` strips.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata

from qualm.runners.prompts.thinking import TAGS, find_thinking_end

_THOUGHTS = re.compile(
    rf"\A\s*(?:{'|'.join(f'{re.escape(begin)}.*?{re.escape(end)}' for begin, end in TAGS)})",
    re.DOTALL | re.IGNORECASE,
)
_TOKEN = re.compile(r"<\|\w+\|>|</?s>|<(?:eos|end_of_turn)>|[\u200b\u200e\u200f\u2060]")
_BLOCK = re.compile(
    r"<(?:br\s*/?|/?(?:p|div|ul|ol|li|dl|dt|dd|table|thead|tbody|tr|td|th|h[1-6]|pre|output|result|final|pair|reasoning|analysis)(?:\s[^<>]*)?)>",
    re.IGNORECASE,
)
_BOLD = re.compile(r"</?(?:b|strong)>|\\textbf\{([^{}]*)\}", re.IGNORECASE)
_ITALIC = re.compile(r"</?(?:i|em)>|\\(?:textit|emph)\{([^{}]*)\}", re.IGNORECASE)
_TEXT = re.compile(r"\\(?:text|mathrm)\{([^{}]*)\}")
_BOXED = re.compile(r"\${0,2}\\(?:boxed|fbox)\{([^{}]*)\}\${0,2}")
_LINE_BREAK = re.compile(r"(?<=[^ \t\\])[ \t]{1,8}\\{1,2}[ \t]{0,8}$", re.MULTILINE)
_WIDE_LABEL = re.compile(r"[ＱＡQA]\s?[０-９₀-₉]")
_LABEL_IN_LATEX = re.compile(r"\$([QA])_\{?(\d)\}?\$")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
_COMMENT = re.compile(r"/\*[^*]*\*/|(?<=[\"\]},])[ \t]*//[^\n]*$", re.MULTILINE)
"""Comment as in a program."""
_FRAME = re.compile(r"^[ \t+┌-╬═─-]{3,}$", re.MULTILINE)
"""Line of a drawn table."""
_SPEAKER = re.compile(r"\A\W*(?:assistant|model|output|result|response)\s*[:：]\s*(?=\S)", re.IGNORECASE)
_ESCAPED = re.compile(r"\A\s*[\[{]+\s*\\\"")


def strip_thoughts(text: str) -> str:
    """Return a reply without thinking and its tags, also where the prompt opened them.

    >>> strip_thoughts("<think>Red?</think>Blue"), strip_thoughts("Red?</think>Blue")
    ('Blue', 'Blue')
    """
    text = _THOUGHTS.sub("", text.removeprefix("\ufeff"))
    for begin, end in TAGS:
        if end in text and begin not in text:
            return text[find_thinking_end(text, begin, end) :]
    return text


def clean_reply(text: str) -> str:
    """Strip thinking, chat tokens and speaker from a reply; turn HTML and LaTeX into Markdown.

    Escaped line ends of a reply in one line are expanded, and a JSON string is unquoted.

    >>> clean_reply("<think>Hm.</think><b>Color:</b> red<br>Size: big<|im_end|>").splitlines()
    ['**Color:** red', 'Size: big']
    """
    text = _unquote(_TOKEN.sub(lambda match: "" if len(match[0]) == 1 else "\n", strip_thoughts(text)))
    text = _SPEAKER.sub("", _WIDE_LABEL.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text))
    text = _BLOCK.sub("\n", _LABEL_IN_LATEX.sub(r"\1\2", _COMMENT.sub("", text)))
    quotes_of_json = '"' in text
    text = _ENTITY.sub(lambda match: match[0] if quotes_of_json and html.unescape(match[0]) == '"' else html.unescape(match[0]), text)
    text = _FRAME.sub("", re.sub("[│┃║]", "|", text))
    text = _ITALIC.sub(lambda match: f"*{match[1] or ''}*" if match[1] else "*", text)
    text = _BOLD.sub(lambda match: f"**{match[1]}**" if match[1] else "**", text)
    text = _LINE_BREAK.sub("", _BOXED.sub(r"\1", _TEXT.sub(r"\1", text)))
    if "\n" not in text.strip() and "\\n" in text and "{" not in text:
        text = text.strip().removeprefix('"').removesuffix('"').replace("\\n", "\n")
    return text


def _unquote(text: str) -> str:
    """Return the text of a reply that is a JSON string; unescape JSON quotes in others."""
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        try:
            value = json.loads(inner, strict=False)
        except ValueError:
            value = None
        if isinstance(value, str):
            return value
    return text.replace('\\"', '"') if _ESCAPED.match(text) else text
