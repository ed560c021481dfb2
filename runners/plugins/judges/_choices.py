"""Reads which option a reply in words names, for every judge that receives options.

It reads what the harnesses of the field read (VLMEvalKit's `can_infer`, MMMU's `parse_multi_choice_response`, the filters of lm-eval
and lmms-eval), and where these guess, take the last or draw at random, it says that nothing can be read:

    B   b   (B)   B)   **B**   B. a dog   B\\na dog      the letter that a reply is, or begins with
    The answer is B.   Answer: (B)   \\boxed{B}   B is right      the letter, or the text, that is announced; of several the last
    a dog   A dog.   It is a dog   I am not sure. B      else the only letter, or the only text of an option, that is mentioned
    not A but B   neither A nor B      mentions that are denied do not count
    A or B   A cat and a dog   None of them      several, or none: not read
"""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal
from qualm.runners.plugins.judges._reply import Word, cleaned, letter, marked, words
from qualm.runners.prompts.question import LETTERS
from qualm.runners.scoring.answer_text import normalise, word_set

_CUES = word_set("answer answers option choice choose chose choosing select selected selecting pick picked picking")
_LEADS = word_set("therefore thus hence so")
_FILLERS = word_set(
    "is was be would will must should could likely most probably definitely clearly the a an therefore thus "
    "option choice letter correct right best final to this that question here of my for with in as follows following it answer i "
    "believe think"
)
_DENIALS = word_set(
    "not n't isn't wasn't aren't doesn't don't can't cannot couldn't won't never neither nor except unlike excluding wrong incorrect"
)
_IS = word_set("is was are looks seems would be must")
_RIGHT = word_set("correct right answer best true fits")
_WRONG = word_set("wrong incorrect false not impossible isn't out eliminated excluded")
_OR = word_set("or and")
NEAR = 4
"""Words before a mention among which a denial counts for it."""
WITHIN = 8
"""Words behind "answer" or the like within which the option stands."""
SEVERAL = -1
"""In the place of an option: several are named in one breath."""


@dataclass(frozen=True, slots=True)
class OptionReading:
    """What a reply says: the option that it names, or that it declines; neither where it cannot be read."""

    place: int | None = None
    declines: bool = False


@dataclass(frozen=True, slots=True)
class _Mention:
    place: int
    start: int
    end: int
    """The words of it: from `start` up to `end`."""


@dataclass(frozen=True)
class _Reply:
    words: Sequence[Word]
    texts: Sequence[_Mention]
    """Where options' texts occur."""
    n: int
    """How many options there are."""
    declines: bool

    @cached_property
    def begins(self) -> dict[int, list[_Mention]]:
        """Texts by the word that they begin with."""
        starts: dict[int, list[_Mention]] = {}
        for mention in self.texts:
            starts.setdefault(mention.start, []).append(mention)
        return starts

    def letter(self, i: int, loosely: bool = False) -> int | None:
        return letter(self.words, i, self.n, loosely)

    @cached_property
    def letters(self) -> list[int]:
        """Places of words that are letters of options; not those within an option's text, nor of a list that is said again."""
        inside = {i for m in self.texts for i in range(m.start, m.end)}
        places = [i for i in range(len(self.words)) if i not in inside and self.letter(i) is not None]
        own = [i for i in places if marked(self.words[i]) and self._is_before_its_text(i)]
        repeated = set(own) if len({self.letter(i) for i in own}) > 1 else set()
        return [i for i in places if i not in repeated]

    def _is_before_its_text(self, i: int) -> bool:
        return any(m.place == self.letter(i) for start in (i + 1, i + 2) for m in self.begins.get(start, ()))

    def starts_a_sentence(self, i: int) -> bool:
        return i == 0 or re.search(r"[.!?:;\n]", self.words[i].before) is not None


def read(reply: str, choices: Sequence[str], question: str = "") -> OptionReading:
    """The option that a reply names.

    >>> options = ["a red cube", "a blue ball", "two cats"]
    >>> [read(r, options).place for r in ("B", "(B) a red cube", "A cat? I think it is C", "It is a Blue ball.", "A or B", "2 cats")]
    [1, 1, 2, 1, None, 2]
    """
    text = cleaned(reply)
    tokens, options = words(text), [_without_articles(words(choice)) for choice in choices]
    if len(tokens) == 1 and (alone := letter(tokens, 0, len(choices))) is not None:
        return OptionReading(alone)
    bare = _without_articles(tokens) or [text]
    equal = [i for i, option in enumerate(options) if choices[i].strip() and (option or [choices[i].strip()]) == bare]
    if len(equal) == 1:
        return OptionReading(equal[0])
    analysis = _Reply(tokens, _texts(tokens, options), len(choices), is_refusal(text, question))
    for place in (_announced(analysis), _first(analysis, choices)):
        if place is not None:
            return OptionReading(place if place != SEVERAL else None)
    place = _declining(analysis, choices) if analysis.declines else _mentioned(analysis)
    return OptionReading(place, analysis.declines and place is None)


def _without_articles(option: Sequence[Word]) -> list[str]:
    return [w.plain for w in option if not w.is_article] or [w.plain for w in option]


def _texts(tokens: Sequence[Word], options: Sequence[Sequence[str]]) -> list[_Mention]:
    """Where options' texts occur, whole words in a row, articles aside; a text within a longer one is no mention of its own."""
    mentions = [m for place, option in enumerate(options) if option for m in _occurrences(tokens, place, option, len(options))]
    longest: dict[int, _Mention] = {}
    for mention in sorted(mentions, key=lambda m: m.end - m.start):
        longest |= dict.fromkeys(range(mention.start, mention.end), mention)
    around = [(m, longest[m.start]) for m in mentions]
    return [m for m, other in around if m.end - m.start == other.end - other.start or m.end > other.end]


def _occurrences(tokens: Sequence[Word], place: int, option: Sequence[str], n: int) -> Iterator[_Mention]:
    if len(option) == 1 and option[0].upper() in LETTERS[:n]:
        return  # a text that is the letter of an option cannot be told from one
    for start, word in enumerate(tokens):
        if word.plain != option[0]:
            continue
        end, matched = start, 0
        while (
            end < len(tokens) and matched < len(option) and (tokens[end].plain == option[matched] or (matched and tokens[end].is_article))
        ):
            matched += tokens[end].plain == option[matched]
            end += 1
        if matched == len(option):
            yield _Mention(place, start, end)


def _announced(reply: _Reply) -> int | None:
    """The option that the reply says is its answer, the last such; None where nothing is said to be."""
    last: int | None = None
    for i, word in enumerate(reply.words):
        place = None
        if word.plain in _CUES:
            place = _after_cue(reply, i + 1)
        elif word.plain in _LEADS and (reply.starts_a_sentence(i) or "," in word.before):
            place = _after_cue(reply, i + 1)
            place = None if place == SEVERAL else place
        elif (own := reply.letter(i)) is not None and _is_called(reply.words, i, _RIGHT) and not _denied(reply.words, i, i + 1):
            place = own
        elif i == len(reply.words) - 1 and reply.starts_a_sentence(i):
            place = reply.letter(i, loosely=True)
        last = place if place is not None else last
    return last


def _after_cue(reply: _Reply, i: int) -> int | None:
    for j in range(i, min(i + WITHIN, len(reply.words))):
        texts, own = reply.begins.get(j, []), reply.letter(j, loosely=True)
        if own is not None and not (texts and reply.words[j].is_article and not marked(reply.words[j])):
            if _is_called(reply.words, j, _WRONG):
                return None
            return SEVERAL if _another(reply, j + 1, own) else own
        if texts:
            return SEVERAL if len(texts) > 1 or _another(reply, texts[0].end, texts[0].place) else texts[0].place
        if reply.words[j].plain not in _FILLERS or (j > i and reply.starts_a_sentence(j) and ":" not in reply.words[j].before):
            return None
    return None


def _another(reply: _Reply, i: int, place: int) -> bool:
    """Whether "or C", "and C", ", C" or "/C" follows: the option is one of several then."""
    tokens = reply.words
    if i >= len(tokens):
        return False
    joined = tokens[i].plain in _OR or re.fullmatch(r"\)?\s*[,/&+]?\s*\(?", tokens[i].before) is not None
    near = range(i, min(i + 3, len(tokens)))
    others = [reply.letter(j) for j in near if j == i or tokens[j - 1].plain in {*_OR, "option", "both", "maybe"}]
    others += [m.place for j in near for m in reply.begins.get(j, ()) if tokens[i].plain in _OR]
    return joined and any(other is not None and other != place for other in others)


def _first(reply: _Reply, choices: Sequence[str]) -> int | None:
    """The option whose marked letter the reply begins with; of yes and no, the word that it begins with."""
    if reply.letters[:1] == [0] and marked(reply.words[0]):
        place = reply.letter(0)
        return SEVERAL if place is not None and _another(reply, 1, place) else place
    begins, plain = reply.begins.get(0, []), {normalise(choice) for choice in choices}
    if len(begins) == 1 and not reply.declines and ({"yes", "no"} <= plain or {"true", "false"} <= plain):
        return SEVERAL if _another(reply, begins[0].end, begins[0].place) else begins[0].place
    return None


def _mentioned(reply: _Reply) -> int | None:
    """The only option whose letter is mentioned and not denied; where there is no letter, the only one whose text is."""
    letters = {reply.letter(i) for i in reply.letters if not _denied(reply.words, i, i + 1)}
    return _only(letters or {m.place for m in reply.texts if not _denied(reply.words, m.start, m.end)})


def _declining(reply: _Reply, choices: Sequence[str]) -> int | None:
    """Of a reply that declines: the only option that says so itself, "it cannot be determined"."""
    return _only({m.place for m in reply.texts if is_refusal(choices[m.place])})


def _only(places: Set[int | None]) -> int | None:
    return next(iter(places)) if len(places) == 1 else None


def _is_called(tokens: Sequence[Word], i: int, names: frozenset[str]) -> bool:
    """Whether "is right", "is the correct answer" or the like stands behind a letter, in its sentence."""
    behind = tokens[i + 1 : i + 6]
    if not behind or re.search(r"[.,!?:;\n]", behind[0].before):
        return False
    if behind[0].plain in ("can", "cannot", "can't") and len(behind) > 1 and behind[1].plain == "be":
        return names is _WRONG  # "can be ruled out", "cannot be"
    if behind[0].plain not in _IS | _DENIALS:
        return False
    for word in behind:
        if word.plain in _WRONG | _RIGHT:
            return word.plain in names
        if word.plain not in _IS | _FILLERS:
            return False
    return False


def _denied(tokens: Sequence[Word], start: int, end: int) -> bool:
    """Whether a mention is denied: "not B", "neither A nor B", "rather than B", "B is wrong"."""
    for i in range(start - 1, max(start - 1 - NEAR, -1), -1):
        before = tokens[i - 1].plain if i else ""
        if re.search(r"[.,;:!?\n]", tokens[i + 1].before):
            break
        if tokens[i].plain in _DENIALS or tokens[i].plain.endswith("n't"):
            return True
        if (before, tokens[i].plain) in (("rather", "than"), ("instead", "of")):
            return True
        if tokens[i].plain == "but":
            return before in ("anything", "everything", "all", "any")
    return _is_called(tokens, end - 1, _WRONG)


OnFailure = Literal["unscored", "wrong"]
Reader = Callable[[str, Sequence[str], str], OptionReading]
"""Answer, options and question -> what the answer says."""


def judged(
    question: str, references: Sequence[str], prediction: str, choices: Sequence[str], read: Reader, on_failure: OnFailure = "unscored"
) -> Judgement:
    """1 where the option that is named is the right one (`references`: its text and its letter), 0 where it is another or the answer
    declines; where it says neither, as `on_failure` has it. Without references declining is right."""
    reading = read(prediction, choices, question) if choices else OptionReading()
    if choices and not references:
        return Judgement(rating=float(reading.declines), pred_is_idk=reading.declines)
    if reading.place is not None:
        return Judgement(rating=float(LETTERS[reading.place] == references[1]), pred_is_idk=reading.declines)
    if reading.declines:
        return Judgement(rating=0.0, pred_is_idk=True)
    return Judgement(rating=0.0 if on_failure == "wrong" and choices else None, pred_is_idk=False if choices else None, parse_ok=False)
