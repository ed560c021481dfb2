"""VQA accuracy by the official rules. VQA: Antol et al., 2015 (ICCV); v2: Goyal et al., 2017 (CVPR)."""

import re
from functools import cache
from typing import Literal

from qualm.runners.contracts.judges import Judgement
from qualm.runners.plugins.judges._refusals import is_refusal

CITES = ["antol2015vqa"]
PEOPLE = 2
"""Minimum references of an unanswerable question that count as people's answers, to be compared with."""

Rule = Literal["official", "evalai", "reliable"]


def vqa(
    questions: list[str],
    references: list[list[str]],
    predictions: list[str],
    *,
    refusal: str | None = None,
    rule: Literal["official", "evalai", "reliable"] = "official",
) -> list[Judgement]:
    """Judge each answer from 0 to 1 by its agreement with people's answers (VQA's formula).

    It is the mean over the references of min(1, number of equal answers among the others / 3).
    With ten references and k equal to the answer: 0, .3, .6, .9, 1, 1... Texts are compared after normalisation, which the
    original code applies only where the references differ, so that against ten times "yes" the answer "Yes" is wrong. A refusal
    is compared like any other text (some of VizWiz's people wrote "unanswerable"), also where the question cannot be answered;
    without references it is right. With a single reference there is nobody else to agree with, and the answer is unscored.

    Args:
        refusal: What a refusal is compared as, in whatever words it was put: "unanswerable" for VizWiz, as CertainlyUncertain does.
        rule: Which of the normalisations in circulation. `official`: of VQA's own evaluator. `evalai`: of the EvalAI processor in
            MMF, Pythia and most harnesses: always applied, lower case, commas and question marks deleted, `'s` a word of its own.
            `reliable`: of the evaluator of selective prediction (Whitehead et al., 2022), which treats runs of punctuation together.
    """
    return [_judge(*row, refusal, rule) for row in zip(questions, references, predictions, strict=True)]


def _judge(question: str, references: list[str], prediction: str, refusal: str | None, rule: Rule) -> Judgement:
    declines = is_refusal(prediction, question)
    if not references:
        return Judgement(rating=float(declines), pred_is_idk=declines)
    answer = refusal if declines and refusal is not None else prediction
    return Judgement(rating=accuracy(answer, references, rule), pred_is_idk=declines)


def accuracy(prediction: str, references: list[str], rule: Rule = "official") -> float | None:
    """Return one answer's VQA accuracy, in [0, 1]; None with fewer than two references."""
    if len(references) < 2:
        return None
    answer, truths = _plain(prediction), [_plain(r) for r in references]
    if rule == "evalai" or len(set(truths)) > 1:
        answer, truths = normalise(answer, rule), [normalise(w, rule) for w in truths]
    same = truths.count(answer)
    return sum(min(1.0, (same - (w == answer)) / 3) for w in truths) / len(truths)


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("\t", " ").strip()


_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_MARK = f"[{re.escape(_MARKS)}]"
_RUN = f"[ {re.escape(_MARKS)}]+"
_BESIDE_ANOTHER = re.compile(f"(?<=[ {re.escape(_MARKS)}]){_MARK}|{_MARK}(?=[ {re.escape(_MARKS)}])")
_BETWEEN_LETTERS = re.compile(f"(?<=[a-zA-Z]){_MARK}(?=[a-zA-Z])")
MAX_PERIODS = 32
"""Maximum deleted periods: the original code passes `re.UNICODE`, which is 32, as `count`."""
_WORDS = "zero one two three four five six seven eight nine ten"
_DIGITS = {word: str(number) for number, word in enumerate(_WORDS.split())} | {"none": "0"}
_ARTICLES = {"a", "an", "the"}
_CONTRACTED = (
    "ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's isn't it'd it'll "
    "ma'am might've mightn't must've mustn't needn't not've o'clock oughtn't shan't should've shouldn't somebody'll somebody's "
    "someone'd someone'll someone's something'd something'll that's there'd there're there's they'd they'll they're they've 'twas "
    "wasn't we've weren't what'll what're what's what've when's where'd where's where've who'd who'll who's who've why'll why're "
    "why's won't would've wouldn't y'all you'd you'll you're you've"
)
_TWICE_CONTRACTED = (
    "couldn't've hadn't've he'd've it'd've mightn't've 'ow's'at she'd've shouldn't've somebody'd've someone'd've something'd've "
    "there'd've they'd've we'd've who'd've wouldn't've y'all'll y'all'd've you'd've"
)


@cache
def _contractions() -> dict[str, str]:
    """Return the official table: word without apostrophe ("dont") -> with it ("don't")."""
    table = {word.replace("'", ""): word for word in _CONTRACTED.split()} | {"somebody'd": "somebodyd"}
    for word in _TWICE_CONTRACTED.split():
        table |= {word[:i] + word[i + 1 :]: word for i, letter in enumerate(word) if letter == "'"}
    return table


def normalise(text: str, rule: Rule = "official") -> str:
    """Return a text with punctuation, case, number words, articles normalised by a rule.

    >>> [normalise(t) for t in ("1,000", "The Cat.", "ice-cream", "dont know", "U.S.A.", "3.5", "$5.00", "none")]
    ['1000', 'cat', 'ice cream', "don't know", 'usa', '3.5', '$5.00', '0']
    >>> [normalise(t, "evalai") for t in ("yes,it is", "it's")], [normalise(t, "reliable") for t in ("yes,it is", "it's", "--no--")]
    (['yesit is', "it 's"], ['yes it is', "it's", 'no'])
    """
    if rule == "evalai":
        text = text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()
    plain = _replace_runs_of_marks(text) if rule == "reliable" else replace_marks(text)
    plain = re.sub(r"\.(?!\d)", "", plain, count=MAX_PERIODS)
    words = [_DIGITS.get(w, w) for w in plain.lower().split()]
    return " ".join(_contractions().get(w, w) for w in words if w not in _ARTICLES)


def replace_marks(text: str) -> str:
    """Delete each kind of mark that stands beside a space anywhere; replace others by spaces.

    All marks are deleted if a comma stands between digits.
    """
    deleted = re.search(r"\d,\d", text) is not None
    plain = text
    for mark in _MARKS:
        plain = plain.replace(mark, "" if deleted or f"{mark} " in text or f" {mark}" in text else " ")
    return plain


def _replace_runs_of_marks(text: str) -> str:
    """Return a text with outer marks deleted; marks between letters, and runs, become spaces.

    Commas within numbers are deleted; other single marks beside digits stay.
    """
    plain = re.sub(rf"\A{_RUN}(?=[a-zA-Z0-9 ])", "", text)
    plain = re.sub(rf"(?<=[a-zA-Z0-9 ]){_RUN}\Z", "", plain)
    plain = re.sub(r"(?<=\d),+(?=\d)", "", plain)
    plain = re.sub(" +", " ", _BESIDE_ANOTHER.sub(" ", plain))
    return _BETWEEN_LETTERS.sub(" ", plain)
