"""A reply split into words with their places, to tell an option's letter from an article and to find an option's text."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from qualm.runners.prompts.question import LETTERS
from qualm.runners.scoring.answer_text import ARTICLES, NUMBERS, in_digits, word_set

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # scripts that put no spaces between words
    r"|(?<![^\W_])[-−]?\d+(?:,\d{3})*(?:\.\d+)?"
    r"|[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+(?:['’][^\W\d_]+)*|\d+"
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{\s*(?:\\(?:text|mathrm|mathbf|textbf)\s*\{)?\s*([^{}]*?)\s*\}+")
_TAGGED = re.compile(r"<(answer|final_answer)>\s*(.*?)\s*</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"\*+|`+|\$|(?<!\w)_+|_+(?!\w)|^#+\s*", re.MULTILINE)
_IN_BRACKETS = re.compile(r"[\[<{]\s*([A-Za-z])\s*[\]>}]")
NOT_AFTER_ARTICLE = word_set(
    "is are was were would could can must should seems looks appears because since as and or but nor for so if "
    "then that which i you we it fits matches shows describes best correctly has"
)
"""An "A" before one of these is a letter: no noun phrase begins so."""
LONGEST = 20_000
"""Characters of a reply that are read, from its end: where it comes to its answer."""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    plain: str
    """In lower case, numbers in digits."""
    before: str
    """What stands between it and the word before."""
    after: str

    @property
    def is_article(self) -> bool:
        return self.plain in ARTICLES and self.after[:1].isspace()


def cleaned(reply: str) -> str:
    """A reply without what it was thought of in, mark-up and LaTeX; the answer that is tagged or boxed, where one is."""
    text = _THOUGHTS.sub(" ", unicodedata.normalize("NFKC", reply[-LONGEST:])).strip()
    if tagged := _TAGGED.findall(text):
        text = tagged[-1][1]
    text = _BOXED.sub(r" answer: \1 ", text)
    return _IN_BRACKETS.sub(r"(\1)", _MARKUP.sub("", text)).strip()


def words(text: str) -> list[Word]:
    """The words of a cleaned reply or of an option."""
    matches = list(_WORD.finditer(text))
    starts = [match.start() for match in matches] + [len(text)]
    ends = [0] + [match.end() for match in matches]
    tokens: list[Word] = []
    for i, match in enumerate(matches):
        plain = match[0].casefold().replace("’", "'").replace(",", "").replace("−", "-")
        word = Word(match[0], NUMBERS.get(plain, plain), text[ends[i] : starts[i]], text[ends[i + 1] : starts[i + 1]])
        if tokens and word.before in ("-", " ") and (joined := in_digits([tokens[-1].text.casefold(), plain])) and len(joined) == 1:
            tokens[-1] = Word(f"{tokens[-1].text}-{word.text}", joined[0], tokens[-1].before, word.after)
        else:
            tokens.append(word)
    return tokens


def letter(tokens: Sequence[Word], i: int, n: int, loosely: bool = False) -> int | None:
    """The option, of n, whose letter a word is; None for an article, a pronoun or any other word.

    Args:
        tokens: the words of the reply.
        i: which of them.
        n: how many options there are.
        loosely: where a letter is to be expected, a small one counts as well.
    """
    word = tokens[i]
    if len(word.text) != 1 or (place := LETTERS.find(word.text.upper())) < 0 or place >= n:
        return None
    if marked(word) or len(tokens) == 1:
        return place
    last, follows = i + 1 == len(tokens), tokens[i + 1] if i + 1 < len(tokens) else None
    alone = last or bool(re.search(r"[^\s\"'“”]|\n", word.after))
    if word.text.islower():
        return place if loosely and alone else None
    if word.text in "AI" and not alone and follows is not None:
        return place if word.text == "A" and follows.plain in NOT_AFTER_ARTICLE else None
    return place if word.text != "I" or last else None


def marked(word: Word) -> bool:
    """Whether a letter is written as options are: "(B)", "B)", "B.", "B:", "B -"."""
    inside = word.before.endswith("(") and word.after.startswith(")")
    listed = re.match(r"\)|[.:]\s*(?!\w)(?=\s|$)|[.:](?=\s|$)|\s+[-–—]\s|\s*\n", word.after) is not None
    return inside or (listed and (word.text.isupper() or word.after.startswith(")")))
