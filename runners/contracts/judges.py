"""Judges: how right an answer in words is, and whether it declines to answer. Options that have numbers need no judge.

The contract of a plugin `NAME.py`; the second form is for one that needs the run's settings, `evidence` (with or without these) for one
that is told what is known of the picture, the samples' `meta.evidence`, empty where there is none:

    def NAME(questions: list[str], references: list[list[str]], predictions: list[str], *, ...) -> list[Judgement]
    def NAME(context: JudgeContext, questions, references, predictions, *, ...) -> list[Judgement]
    def NAME(context: JudgeContext, questions, references, predictions, evidence: list[str], *, ...) -> list[Judgement]
    def NAME(questions, references, predictions, choices: list[list[str]], *, ...) -> list[Judgement]

- One judgement per question, in order. No references means that declining is the right answer.
- A module that declares `PEOPLE = n` is handed the references of a question that cannot be answered too, where there are at least n:
  then they are people's answers ("unanswerable" among them), and not ways to decline.
- `rating` is 1 right, 0 wrong, between them partly right; None where the judge could not tell, which is counted and never guessed.
- An answer that declines is right (1) where declining is right and wrong (0) elsewhere; any other answer is wrong (0) where
  declining is right.
- A judge that takes `choices` is for multiple-choice questions that were answered in words, and is given these alone, others the
  open ones. Its references are the right option's text and its letter. One that declares `READS = ["open", "choices"]` is given both;
  an open question has no options. What a reply names is read by `_choices.read`, one reader for all without a rule of their own.
- `marks` are numbers that metrics read as `marked_by_JUDGE/NAME`: what the answer says, how many of its sentences are wrong. A module
  declares them, `MARKS = ["said", "truth"]`, and all answers of which it can tell something have them.
- A judgement depends on its own question, references, prediction and evidence alone: equal ones are given to the judge once
  (`qualm.runners.scoring.apply_judge`). What costs money or hours is kept by content, so that a killed run goes on.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qualm.runners.runtime.settings import Settings

_NO_MARKS: Mapping[str, float] = MappingProxyType({})


class JudgeError(Exception):
    """A judge that cannot be opened or fails. The message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge made of one answer."""

    rating: float | None
    pred_is_idk: bool | None
    """The answer declines: says that it does not know or that the question cannot be answered."""
    reply: str | None = None
    """What a model that judges said."""
    parse_ok: bool = True
    """False if that could not be read."""
    marks: Mapping[str, float] = field(default_factory=lambda: _NO_MARKS)
    """What else was measured, by name."""


@dataclass
class JudgeContext:
    """What a judge is handed that asks for it."""

    settings: Settings
    counters: Counter[str] = field(default_factory=Counter)
    """What this run did (asked, found in a cache...): printed, and not part of the result."""
