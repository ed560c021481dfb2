"""VQA accuracy by the official rules. VQA: Antol et al., 2015 (ICCV); v2: Goyal et al., 2017 (CVPR)."""

from __future__ import annotations

import re

from runners.judges import Judgement
from runners.judges._refusals import is_refusal

CITES = ["antol2015vqa"]


def vqa(questions: list[str], references: list[list[str]], predictions: list[str], *, refusal: str | None = None) -> list[Judgement]:
    """Agreement with the people who answered: mean over the references of min(1, equal ones among the others / 3).

    With ten references and k equal to the answer: 0, .3, .6, .9, 1, 1... Texts are compared after the official
    normalisation, which the original code applies only where the references differ, so that against ten times "yes" the
    answer "Yes" is wrong. A refusal is compared like any other text (some of VizWiz's people wrote "unanswerable"); without
    references it is right. With a single reference there is nobody else to agree with, and the answer is unscored.

    Args:
        refusal: What a refusal is compared as, in whatever words it was put: "unanswerable" for VizWiz, as CertainlyUncertain does.
    """
    return [_judge(*row, refusal) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str, refusal: str | None) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    said = refusal if declines and refusal is not None else prediction
    return Judgement(rating=accuracy(said, references), pred_is_idk=declines)


def accuracy(prediction: str, references: list[str]) -> float | None:
    """VQA accuracy of one answer; None with fewer than two references."""
    if len(references) < 2:
        return None
    said, wanted = _plain(prediction), [_plain(r) for r in references]
    if len(set(wanted)) > 1:
        said, wanted = normalise(said), [normalise(w) for w in wanted]
    same = wanted.count(said)
    return sum(min(1.0, (same - (w == said)) / 3) for w in wanted) / len(wanted)


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_WORDS = "zero one two three four five six seven eight nine ten"
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS.split())} | {"none": "0"}
_ARTICLES = {"a", "an", "the"}
_CONTRACTED = (
    "ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he's how'd how'll how's i'm i've isn't it'd "
    "it'll ma'am might've mightn't must've mustn't needn't not've o'clock oughtn't shan't should've shouldn't somebody'll "
    "somebody's someone'll someone's something'll that's there're there's they'd they'll they're they've 'twas wasn't we've "
    "weren't what'll what're what's what've when's where'd where's where've who'd who'll who's who've why'll why're why's won't "
    "would've wouldn't y'all you'd you'll you're you've"
)
_CONTRACTIONS = {word.replace("'", ""): word for word in _CONTRACTED.split()}


def normalise(text: str) -> str:
    """Punctuation, case, number words, articles and contractions, in the official order.

    >>> [normalise(t) for t in ("1,000", "The Cat.", "ice-cream", "dont know", "U.S.A.", "3.5", "$5.00", "none")]
    ['1000', 'cat', 'ice cream', "don't know", 'usa', '3.5', '$5.00', '0']
    """
    deleted = re.search(r"\d,\d", text) is not None
    plain = text
    for mark in _MARKS:
        plain = plain.replace(mark, "" if deleted or f"{mark} " in text or f" {mark}" in text else " ")
    plain = re.sub(r"\.(?!\d)", "", plain)
    words = [_DIGITS.get(w, w) for w in plain.lower().split()]
    return " ".join(_CONTRACTIONS.get(w, w) for w in words if w not in _ARTICLES)
