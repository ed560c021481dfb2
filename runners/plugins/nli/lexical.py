"""Inference by words alone, without a model: for answers of a word or two, for a first look, and for tests.

It knows no synonyms: "a car" and "an automobile" contradict each other. For sentences use a model (`hf`).
"""

import re
from collections.abc import Iterator, Sequence

from qualm.runners.contracts.nli import Logits, NliContext, NliEngine, Pair
from qualm.runners.inference.nli import CONTRADICTS, FOLLOWS, UNRELATED
from qualm.runners.scoring.answer_text import words_of

_NEGATES = re.compile(
    "no|not|nor|never|neither|without|0|nobody|nothing|nowhere|cannot|cant|dont|doesnt|didnt|isnt|arent|wasnt|werent|wont|couldnt"
)
"""Negating words in normal form: "none" and "zero" are "0"."""


def lexical(context: NliContext) -> NliEngine:
    """Return an NLI engine by rules: a premise entails the word sequences it contains.

    Words are compared without case, punctuation and articles, and "two" equals "2", as for the judge `rules`. The rules, in order:
    neither text has a word: entailment if the texts are equal; only one negates ("no", "not", "never"...): contradiction; the hypothesis's
    words are consecutive in the premise: entailment ("a big red car" entails "red car", not vice versa); no common word: contradiction;
    otherwise neutral. Scripts written without spaces are compared by character.
    """
    return _Lexical()


class _Lexical:
    identity = ""
    name = "lexical"
    classes = 3

    def infer(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[int, Logits]]]:
        words = {text: words_of(text) for pair in pairs for text in pair}
        yield [(i, _compare(premise, hypothesis, words)) for i, (premise, hypothesis) in enumerate(pairs)]


def _compare(premise: str, hypothesis: str, words: dict[str, list[str]]) -> Logits:
    first, second = words[premise], words[hypothesis]
    if not first or not second:
        return FOLLOWS if "".join(premise.split()) == "".join(hypothesis.split()) else UNRELATED
    if any(map(_NEGATES.fullmatch, first)) != any(map(_NEGATES.fullmatch, second)):
        return CONTRADICTS
    if f" {' '.join(second)} " in f" {' '.join(first)} ":
        return FOLLOWS
    return UNRELATED if set(first) & set(second) else CONTRADICTS
