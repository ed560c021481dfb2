"""Clean a reply to a multiple-choice question and replace every option that it mentions by one character.

After that, a rule about options is a short regular expression: "the answer is (B) a dog" has become "the answer is X", whatever letter,
text, mark-up or LaTeX the option was written in.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from qualm.registry import LETTERS
from qualm.runners.prompts.plain import clean_reply
from qualm.runners.scoring.answer_text import ARTICLES, NUMBERS, numbers_to_digits, word_set

MAX_CHARACTERS = 20_000
"""Characters of a reply that are read, from its end: where it comes to its answer."""
MENTION = r"[\ue000-\uf8ff]"
"""A character that stands for an option, or for several that are named in one breath."""
FINAL = "\nfinal answer: "
"""Replacement of a box or tag around the answer."""
_FIRST = 0xE000
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")

_THOUGHTS = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_TAGGED = re.compile(r"<(answer|final_answer|finalanswer|choice)>(.{0,4000}?)</\1>", re.DOTALL | re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|<\|begin_of_box\|>(?=.*<\|end_of_box\|>)")
_NEXT_TURN = re.compile(
    r"<\|(?:im_start|start_header_id)\|>\s*(?:user|human)|<\|?(?:user|human)\|?>|\[INST\]"
    r"|\n[ \t]*(?:[#*>]+[ \t]*)?(?:question|user|human|instruction|exercise|problem|q|问题|问)[ \t]*\d*[ \t]*\*{0,2}[:：.]",
    re.IGNORECASE,
)
_STRUCK = re.compile(r"~~[^~]{1,400}~~|<(s|del|strike)>.{1,400}?</\1>", re.DOTALL)
_EMPHASISED_LETTER = re.compile(r"(?<![\w*])(?:\*{1,3}|_{1,2}|`|[\"“'‘])\s*\(?([A-Za-z])\s*[).]?\s*(?:\*{1,3}|_{1,2}|`|[\"”'’])(?![\w*])")
_MARKUP = re.compile(
    r"\*{2,}|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|`+|\$|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|^[ \t]*(?:#+|>+|[*•·])[ \t]+", re.MULTILINE
)
_BRACKETED_LETTER = re.compile(r"[\[<{【（]\s*([A-Za-z])\s*[\]>}】）]")
_RAISED = str.maketrans({c: f"^{p}" for c, p in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True)})
_GREEK = dict(zip("pi theta alpha beta gamma delta lambda mu omega phi sigma infty".split(), "πθαβγδλμωφσ∞", strict=True))  # noqa: SIM905
_SIGNS = dict(zip("le leq ge geq ne neq times cdot pm lt gt div".split(), "≤≤≥≥≠≠×·±<>÷", strict=True))  # noqa: SIM905
_LATEX: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|mathsf|mbox|operatorname|textit|bf|rm)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (
        re.compile(r"\\sqrt\s*\{([^{}]*)\}|√\s*\{([^{}]*)\}|√\s+(?=\w)|√\s*\(([^()]*)\)"),
        lambda m: "√" + (m[1] or m[2] or m[3] or "").strip(),
    ),
    (re.compile(r"(?<=\d)(?:\{,\}|\\,|\\!|\\;|\\ |~|[\u202f\u2009\u00a0])(?=\d{3}(?!\d))"), ","),
    (re.compile(r"\^\s*\{?\s*(?:\\circ|∘|◦)\s*\}?|\\degree"), "°"),
    (re.compile(r"\^\s*\{([^{}]*)\}"), r"^\1"),
    (re.compile(r"\\(?:left|right|displaystyle|quad|qquad|big|Big)\b|\\[,;:! ()\[\]]"), " "),
    (re.compile(r"\\([%$&#_{}])"), r"\1"),
    (re.compile(r"\\(pi|theta|alpha|beta|gamma|delta|lambda|mu|omega|phi|sigma|infty)\b"), lambda m: _GREEK[m[1]]),
    (re.compile(r"\\(leq?|geq?|neq?|times|cdot|pm|lt|gt|div)\b"), lambda m: _SIGNS[m[1]]),
]
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    rf"[{_CJK}]"
    r"|(?<![\w)])[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<![\w)])[-−+]?\.\d+|\d+(?:\.\d+)?"
    rf"|[^\W\d_{_CJK}]+(?:['’][^\W\d_]+)*|(?<![^\W\d_])-|-(?![^\W\d_])|[+<>=≠≤≥≈±×÷·^/*%°#&√∞∠€£¥@~]"
)
_SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?![\w,])")
_GLUED_BEFORE = re.compile(r"[√^*/∠·×]$|\d[°%]?[^\S\n]*[-+*/÷×][^\S\n]*$")
_GLUED_BEHIND = re.compile(r"[^\S\n]*[√^·×]|[/*][^\S\n]*\w|[°%]?[^\S\n]*[-+*/÷][^\S\n]*\d")
_OPERAND_BEHIND = re.compile(r"[°%]?[^\S\n]+=")
"""Operator that makes a number an operand of a calculation."""
_NOUNS = (
    "option|choice|answer|letter|point|points|image|picture|box|figure|graph|circle|label|labeled|labelled|panel|photo|candidate|statement|"
    "选项|选择|选|答案|答案是|答案为|图"
)
_NAMED = re.compile(rf"(?:\b(?:{_NOUNS})|(?:选项|选择|选|答案|是|为|图))\W{{0,2}}$", re.IGNORECASE)
_ANNOUNCED = re.compile(r"(?:answer|option|choice|letter)\b[^.\n]{0,12}?(?:\b(?:is|be)\b|[:=])\W{0,3}$", re.IGNORECASE)
_ASKS_FOR_ARTICLE = re.compile(r"(?:answer|choice|candidate|statement|photo)\W*$", re.IGNORECASE)
_NOT_AFTER_ARTICLE = word_set(
    "is are was were would could can must should seems looks appears because since as and or but nor for so if "
    "then that which i you we it fits matches shows describes best correctly has does do did may might will not"
)
"""An "A" before one of these is a letter: no noun phrase begins so."""
_FUNCTION_WORDS = word_set(
    "it he she they there this that is are was were has have to in on at of by with for from because its his her their"
)
_BY_PLACE = re.compile(r"\b(?:the )?(first|second|third|fourth|fifth) option\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or sign with its place; `plain` is its normalised form."""

    plain: str
    start: int
    end: int
    is_sign: bool = False
    is_article: bool = False


@dataclass(frozen=True, slots=True)
class LetterMention:
    """A letter in a text as the index of an option; beyond the options, an index >= their number."""

    option: int
    start: int
    end: int
    marked: bool
    """Unmistakably an option: marked as such ("(B)", "B.", "option B")."""


@dataclass
class Marked:
    """A reply's text, with one character per mention of an option, and what each stands for."""

    text: str
    options: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Character -> the options that it stands for, in the order in which they are named."""
    letters: set[str] = field(default_factory=set)
    """Characters that stand for a letter, with or without the option's text."""
    marked: set[str] = field(default_factory=set)
    """Characters that are unmistakably an option."""

    def option(self, character: str) -> int | None:
        """Return the index of the option that a character stands for; None if for several."""
        named = set(self.options[character])
        return named.pop() if len(named) == 1 else None


def clean(reply: str) -> str:
    r"""Return a reply without thoughts, markup and LaTeX, boxed answers as "final answer: ...".

    If tags such as `<answer>` enclose an answer, the text of the last ones is all that stays. A long text loses its beginning.

    >>> clean("<think>A?</think>It is **B**, $10{,}000$ \\boxed{\\text{B}}").split("\n")
    ['It is (B), 10,000 ', 'final answer: B']
    """
    text = _PRIVATE.sub(" ", reply)
    if len(text) > 3 * MAX_CHARACTERS:
        text = text[-3 * MAX_CHARACTERS :]
    text = _STRUCK.sub(" ", _THOUGHTS.sub(" ", _boxes_to_lines(text)))
    if tagged := _TAGGED.findall(text):
        text = FINAL + tagged[-1][1]
    for pattern, by in _LATEX:
        text = pattern.sub(by, text)
    text = unicodedata.normalize("NFKC", clean_reply(text).translate(_RAISED)).replace("−", "-").replace("⁄", "/")
    text = _MARKUP.sub("", _BRACKETED_LETTER.sub(r"(\1)", _EMPHASISED_LETTER.sub(r"(\1)", text)))
    return text[-MAX_CHARACTERS:].strip()


def _boxes_to_lines(text: str) -> str:
    """Return the text with each box of LaTeX or GLM as a line "final answer: ..."."""
    parts, end = [], 0
    for box in _BOX.finditer(text):
        if box.start() < end:
            continue
        if box[0].startswith("<"):
            close = text.find("<|end_of_box|>", box.end())
        else:
            depth, close = 1, box.end()
            while close < len(text) and depth:
                depth += {"{": 1, "}": -1}.get(text[close], 0)
                close += 1
            close -= 1
        parts += [text[end : box.start()], FINAL, text[box.end() : close], "\n"]
        end = close + (1 if not box[0].startswith("<") else len("<|end_of_box|>"))
    return "".join(parts) + text[end:]


def first_turn(reply: str, question: str) -> str:
    r"""Return a reply cut before the first invented turn; a repeat of `question` is kept.

    >>> first_turn("B\n\nQuestion: What is it?\nAnswer: C", "")
    'B'
    """
    beginning = "".join(question.split())[:30].casefold()
    for turn in _NEXT_TURN.finditer(reply):
        behind = "".join(reply[turn.end() : turn.end() + 200].split()).casefold()
        if reply[: turn.start()].strip() and not (beginning and behind.startswith(beginning)):
            return reply[: turn.start()].rstrip()
    return reply


def tokens(text: str) -> list[Token]:
    """Return the words, numbers and signs of a cleaned text."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        plain, sign = match[0].casefold().replace("’", "'"), False
        if plain[-1].isdigit():
            plain = _normalise_number(plain)
        elif not plain[0].isalnum():
            sign = True
        else:
            plain = NUMBERS.get(plain, plain) if plain != "none" else plain
        if found and text[found[-1].end : match.start()] in ("-", " "):
            joined = numbers_to_digits([text[found[-1].start : found[-1].end].casefold(), match[0].casefold()])
            if len(joined) == 1:
                found[-1] = Token(joined[0], found[-1].start, match.end())
                continue
        behind = text[match.end() : match.end() + 16]
        article = plain in ARTICLES and re.match(r"\s+[^\W_]", behind) is not None and not (match[0] == "A" and _is_letter_a(behind))
        found.append(Token(plain, match.start(), match.end(), sign, article))
    return found


def _words(own: Sequence[Token], signs: bool) -> tuple[str, ...]:
    return tuple(t.plain for t in own if not t.is_article and (signs or not t.is_sign))


def _normalise_number(text: str) -> str:
    """Return a number in its normal spelling, so that equal numbers are equal texts.

    >>> _normalise_number("1,500"), _normalise_number("+1.50"), _normalise_number(".5"), _normalise_number("-0.0")
    ('1500', '1.5', '0.5', '0')
    """
    sign, digits = ("-" if text.startswith("-") else ""), text.lstrip("+-").replace(",", "")
    whole, _, part = digits.partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    plain = f"{whole}.{part}" if part else whole
    return plain if plain == "0" else sign + plain


class Options:
    """The options of a question, prepared to be found in replies."""

    def __init__(self, choices: Sequence[str]) -> None:
        self.n = len(choices)
        self.cleaned = [clean(choice).strip() for choice in choices]
        full = [tokens(text) for text in self.cleaned]
        loose, exact = [_words(row, signs=False) for row in full], [_words(row, signs=True) for row in full]
        self.with_signs = {
            i
            for i in range(self.n)
            if not loose[i] or "√" in exact[i] or any(loose[i] == loose[j] and exact[i] != exact[j] for j in range(self.n))
        }
        """Options that only their signs distinguish, C, C++ and C#, or that have a root."""
        self.whole = [exact[i] if i in self.with_signs else loose[i] for i in range(self.n)]
        """Words of each option."""
        n_shared = self._shared_beginning()
        self.words = [words[n_shared:] for words in self.whole]
        """Words by which each option is found: of "it is snowing" and "it is foggy" the last."""
        self.has_other_letters = any(
            LETTERS.find(match[0]) not in (-1, i) and (match[0] != "A" or _is_letter_a(text[match.end() :]))
            for i, text in enumerate(self.cleaned)
            if len(self.whole[i]) > 1
            for match in re.finditer(rf"\b[{LETTERS[: self.n]}]\b", text)
        )
        """A letter may be part of an option's text: of "A is larger than B"."""
        self.units = self._shared_units()
        self._edges = [
            (text[: row[0].start], text[row[-1].end :]) if row else ("", "") for text, row in zip(self.cleaned, full, strict=True)
        ]
        """Punctuation around the words of each option: "Smoke?" """
        self._by_first: dict[str, list[int]] = {}
        for i, words in enumerate(self.words):
            if words and not (len(words) == 1 and words[0].upper() in tuple(LETTERS[: self.n])):
                self._by_first.setdefault(words[0], []).append(i)

    def has_its_letter(self, i: int) -> bool:
        """Return true if option `i`, of several words, contains its letter: "Point A" of option A."""
        return i < len(LETTERS) and len(self.whole[i]) > 1 and re.search(rf"\b{LETTERS[i]}\b", self.cleaned[i]) is not None

    def _shared_beginning(self) -> int:
        """Return how many function words all options begin with; 0 if one would keep no word."""
        shared = 0
        for column in zip(*self.whole, strict=False):
            if len(set(column)) > 1 or column[0] not in _FUNCTION_WORDS:
                break
            shared += 1
        is_found = [bool(words[shared:]) and (len("".join(words[shared:])) > 1 or _is_number(words[-1])) for words in self.whole]
        return shared if all(is_found) else 0

    def _shared_units(self) -> int:
        """Return how many words follow the numbers of all options ("12 cm", "9 cm": 1), else 0."""
        if self.with_signs or len(self.words) < 2 or not all(words and _is_number(words[0]) for words in self.words):
            return 0
        behind = {words[1:] for words in self.words}
        return len(behind.pop()) if len(behind) == 1 and len({words[0] for words in self.words}) == self.n else 0

    def find_equal(self, text: str) -> int | None:
        """Return the index of the option that a cleaned text equals; None unless exactly one."""
        own = tokens(text)
        if len(own) > 1 and own[0].plain.upper() in tuple(LETTERS[: self.n]) and not text[own[0].end : own[0].end + 1].isspace():
            return None  # "A. dog" begins with a letter, "a dog" with an article
        loose, exact = _words(own, signs=False), _words(own, signs=True)
        same = [i for i in range(self.n) if self.whole[i] and self.whole[i] == (exact if i in self.with_signs else loose)]
        if len(same) == 1 and (same[0] in self.with_signs or not any(t.is_sign and t.plain in "<>=≠≤≥" for t in own)):
            return same[0]
        equal = [i for i, option in enumerate(self.cleaned) if option and option == text.strip()]
        return equal[0] if len(equal) == 1 else None

    def find_texts(self, text: str, text_tokens: Sequence[Token]) -> list[tuple[int, int, tuple[int, ...]]]:
        """Return (start, end, option indices) of the longest spans with options' words, in order."""
        words = [t for t in text_tokens if not t.is_sign]
        found = {(start, end, i) for start, end, i in self._occurrences(text, text_tokens, signs=True)}
        found |= {(start, end, i) for start, end, i in self._occurrences(text, words, signs=False)}
        found |= {alike for start, end, i in tuple(found) for alike in self._elliptic(words, start, end, i)}
        spans: dict[tuple[int, int], list[int]] = {}
        for start, end, i in sorted(found):
            spans.setdefault((start, end), []).append(i)
        longest: dict[int, tuple[int, int]] = {}
        for start, end in sorted(spans, key=lambda span: span[1] - span[0]):
            longest |= dict.fromkeys(range(start, end), (start, end))
        longest_spans = [span for span in sorted(spans) if longest[span[0]] == span or longest[span[1] - 1] == span]
        return [(start, end, tuple(spans[start, end])) for start, end in longest_spans]

    def _occurrences(self, text: str, own: Sequence[Token], signs: bool) -> Iterator[tuple[int, int, int]]:
        for k, token in enumerate(own):
            for i in self._by_first.get(token.plain, ()):
                if (i in self.with_signs) != signs:
                    continue
                end = _match(own, k, self.words[i]) or (
                    _match(own, k, self.words[i][: len(self.words[i]) - self.units]) if self.units else None
                )
                if end is not None and self._is_whole(text, own[k].start, own[end - 1].end, self.words[i]):
                    before, behind = self._edges[i]
                    start, stop = own[k].start, own[end - 1].end
                    start -= len(before) if before and text[:start].endswith(before) else 0
                    yield start, stop + (len(behind) if behind and text.startswith(behind, stop) else 0), i

    def _elliptic(self, text_tokens: Sequence[Token], start: int, end: int, i: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, option) twice for a span of two, such as "second or third image".

        Args:
            text_tokens: of the whole text.
            start: where the second option ("third image") was found.
            end: its end.
            i: its index.
        """
        k = bisect_left(text_tokens, start, key=lambda token: token.start)
        if k < 2 or text_tokens[k - 1].plain not in ("or", "and", "nor"):
            return
        for j in range(self.n):
            if (
                j != i
                and self.words[j][1:] == self.words[i][1:]
                and self.words[j][0] == text_tokens[k - 2].plain
                and len(self.words[i]) > 1
            ):
                yield text_tokens[k - 2].start, end, i
                yield text_tokens[k - 2].start, end, j

    @staticmethod
    def _is_whole(text: str, start: int, end: int, words: Sequence[str]) -> bool:
        """Return false if a number of the span is part of an expression: 6 in 6√7, 5 in 5/12."""
        before = _GLUED_BEFORE.search(text[max(start - 8, 0) : start]) if _is_number(words[0]) else None
        if before is not None or (len(words) == 1 and _is_number(words[0]) and _OPERAND_BEHIND.match(text, end)):
            return False
        return not (_is_number(words[-1]) and _GLUED_BEHIND.match(text, end))


def _is_number(word: str) -> bool:
    return word[-1:].isdigit()


def _match(text_tokens: Sequence[Token], k: int, words: Sequence[str]) -> int | None:
    """Return the token index after `words` matched at `k`, articles skipped; else None."""
    matched = 0
    while k < len(text_tokens) and matched < len(words):
        if text_tokens[k].plain == words[matched]:
            matched += 1
        elif not (matched and text_tokens[k].is_article):
            return None
        k += 1
    return k if matched == len(words) else None


_LETTER = re.compile(r"(?<![A-Za-z0-9'’\\])[A-Za-z](?![A-Za-z0-9'’])")
_MATHS_BEFORE = re.compile(r"(?:[∠△^_=+*√·×<]\s*|(?<![A-Z])/|(?<=\w)-|\d ?|\w\()$")
_MATHS_BEHIND = re.compile(r"\s*[=∪∩^_+√×]|-(?=\w)|\s*\)?\s*=|\(|/(?![A-Z]\b)|'")


def _letter_mentions(text: str, n_options: int, taken: Sequence[tuple[int, int]]) -> Iterator[LetterMention]:
    """Yield mentions by letter outside `taken` spans; beyond `n_options`, only marked ones.

    A marked letter beyond those of the options is yielded too: "the answer is (F)" names none of four options.
    """
    at = 0
    for match in _LETTER.finditer(text):
        place = LETTERS.find(match[0].upper())
        start, end = match.span()
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        if (place >= n_options and match[0].islower()) or (at < len(taken) and taken[at][0] <= start):
            continue
        before, behind = text[max(start - 24, 0) : start], text[end : end + 24]
        inside = re.search(r"(?:^|[^\w])\(\s*$", before) is not None and re.match(r"\s*\)", behind) is not None
        opens_line = re.search(r"(?:^|[\n.!?;,:|]|- |\d[.)])[ \t\"'(]*$", before) is not None and (start < 24 or before.strip() != "")
        listed = re.match(r"\)|[.:](?=\s|$)|\s+[-–—|]\s|\s*\n|\s*$", behind) is not None and opens_line
        listed = listed or (re.match(r"\)(?!\w)|\.(?=\s+\S)", behind) is not None and before[-1:] in ("", " ", "\n") and match[0].isupper())
        named = _NAMED.search(before) is not None
        if inside:
            yield LetterMention(place, before.rfind("(") - len(before) + start, end + behind.index(")") + 1, True)
            continue
        named = named or _ANNOUNCED.search(before) is not None
        if not named and (_MATHS_BEFORE.search(before) or _MATHS_BEHIND.match(behind)):
            continue
        if place >= n_options and not ((opens_line and listed) or _ANNOUNCED.search(before)):
            continue
        alone = re.match(r"\s*(?:$|[^\s\w\"'“”(-])|\s*\n", behind) is not None
        if match[0].islower():
            if (named and alone) or (opens_line and not behind.strip(" .)!")) or (listed and behind[:1] == ")"):
                yield LetterMention(place, start, end + (behind[:1] == ")"), True)
            continue
        if listed or named:
            if not listed and match[0] == "A" and not alone and not _is_letter_a(behind) and _ASKS_FOR_ARTICLE.search(before):
                continue
            yield LetterMention(place, start, end + (behind[:1] == ")" or (opens_line and behind[:1] in ".:" and behind != "")), True)
            continue
        if match[0] in "AI" and not alone and not (match[0] == "A" and _is_letter_a(behind)):
            continue
        if match[0] == "I" and not re.match(r"\s*(?:[.\n]|$)", behind):
            continue
        yield LetterMention(place, start, end, False)


def _is_letter_a(behind: str) -> bool:
    word = re.match(r"\s+([A-Za-z]+)", behind)
    return word is None or word[1].casefold() in _NOT_AFTER_ARTICLE or (len(word[1]) == 1 and word[1].isupper())


_VERDICT = re.compile(
    r"\b[A-Z]\)? (?:is|was|looks|seems|would be|must be)(?: indeed| clearly)? (?:the )?(?:right|correct|true|wrong|false|incorrect)$"
)
"""Verdict on an option: "C is right" does not mention the option "right"."""
_BETWEEN = re.compile(r"[\s.):,\-–—\"'(]*(?:\b(?:the|a|an)\s)?\s*")
_BEHIND_TEXT = re.compile(r"\s*(?:\(|,? ?(?:option|choice)\s*\(?)?\s*")
_JOIN = (
    r"[ \t]*\n?[ \t]*(?:[,/&+、]|[.,;]?\s*(?:and|or|nor|und|oder|et|ou|y|o|e|和|或|及|与)(?:/or)?\b)?[ \t]*(?:(?:also|maybe|perhaps|"
    r"possibly|either|both|even|probably)\s+)?(?:the\s+)?(?:(?:option|choice|answer|point|image|picture|box)s?\s*)?"
)
_COMPARES = re.compile(r"\b(?:compared (?:to|with)|unlike|in contrast to|as opposed to)(?: the)? ?\Z", re.IGNORECASE)
"""Before "A, B ...": what is compared with A is no second member of a list."""
_GROUP = re.compile(rf"{MENTION}(?:{_JOIN}{MENTION})+", re.IGNORECASE)


def mark(text: str, options: Options, by_letter_only: Collection[int] = ()) -> Marked:
    """Return a cleaned text (as Marked) with each mention of options as one character.

    Args:
        text: the reply.
        options: what it may mention.
        by_letter_only: options of which the text alone is no mention, such as "no".

    >>> marked = mark("(A) a cat? No: a dog (B), not A or C.", Options(["a cat", "a dog", "a bird"]))
    >>> [marked.options[c] for c in marked.text if c in marked.options]
    [(0,), (1,), (0, 2)]
    """
    if re.search(r"\d \d{3}", text):
        numbers = {word for words in options.words for word in words if _is_number(word)}
        text = _SPACED.sub(lambda m: m[0].replace(" ", "") if _normalise_number(m[0].replace(" ", "")) in numbers else m[0], text)
    places = ("first", "second", "third", "fourth", "fifth")
    text = _BY_PLACE.sub(lambda m: f"option {LETTERS[places.index(m[1].casefold())]}", text)
    texts = [span for span in options.find_texts(text, tokens(text)) if not _VERDICT.search(text[max(span[0] - 30, 0) : span[1]])]
    taken = [(start, end) for start, end, _ in texts]
    found = [m for m in _letter_mentions(text, options.n, taken) if m.marked or not options.has_other_letters]
    spans = sorted(
        [(m.start, m.end, (m.option,), True, m.marked) for m in found]
        + [(s, e, o, options.has_its_letter(o[0]), True) for s, e, o in texts]
    )
    merged: list[tuple[int, int, tuple[int, ...], bool, bool]] = []
    for span in spans:
        start, end, named, by_letter, is_marked = span
        if merged:
            before = merged[-1]
            between = text[before[1] : start]
            letter_then_text = before[3] and not by_letter and _BETWEEN.fullmatch(between) and "\n\n" not in between
            text_then_letter = not before[3] and by_letter and is_marked and _BEHIND_TEXT.fullmatch(between)
            if letter_then_text and len(before[2]) == 1 and (set(named) & set(before[2]) or (before[4] and "\n" not in between)):
                merged[-1] = (before[0], end, before[2], True, True)  # of a letter before another option's text the letter counts
                continue
            if text_then_letter and set(named) & set(before[2]):
                merged[-1] = (before[0], end, named, True, True)
                continue
            spelt = options.words[before[2][0]] if before[3] and before[4] and len(before[2]) == 1 and before[2][0] < options.n else ()
            if by_letter and len(spelt) == 1 and spelt[0].upper() == LETTERS[named[0]] and re.fullmatch(r"[\s.):(]*", between):
                merged[-1] = (before[0], end, before[2], True, True)  # "C. D", where the text of option C is "D"
                continue
            if text_then_letter and by_letter and named[0] >= options.n:
                merged[-1] = (before[0], end, before[2], False, True)  # "the third image (C)" of two options
                continue
            if start < before[1]:
                merged[-1] = (before[0], max(end, before[1]), tuple(dict.fromkeys((*before[2], *named))), before[3], True)
                continue
        merged.append(span)
    merged = [span for span in merged if span[3] or not set(span[2]) & set(by_letter_only)]
    marked, parts, at = Marked(""), list[str](), 0
    characters: dict[tuple[tuple[int, ...], bool, bool], str] = {}
    for start, end, named, by_letter, is_marked in merged:
        character = characters.setdefault((named, by_letter, is_marked), chr(_FIRST + len(characters)))
        marked.options[character] = named
        marked.letters |= {character} if by_letter else set()
        marked.marked |= {character} if is_marked else set()
        parts += [text[at:start], character]
        at = end
    marked.text = "".join(parts) + text[at:]
    text = marked.text
    marked.text = _GROUP.sub(lambda m: m[0] if _COMPARES.search(text, max(m.start() - 24, 0), m.start()) else _join_run(m[0], marked), text)
    return marked


def _join_run(mention_characters: str, marked: Marked) -> str:
    """Return the character for adjacent option mentions; add a new one to `marked` if needed."""
    members = [c for c in mention_characters if c in marked.options]
    named = tuple(option for c in members for option in marked.options[c])
    if len(set(named)) == 1:
        return next((c for c in members if c in marked.marked), members[0])
    for character, options in marked.options.items():
        if options == named and (character in marked.letters) == (members[0] in marked.letters):
            return character
    character = chr(_FIRST + 0x400 + len(marked.options))
    marked.options[character] = named
    marked.letters |= {character} if members[0] in marked.letters else set()
    marked.marked |= {character} if any(c in marked.marked for c in members) else set()
    return character
