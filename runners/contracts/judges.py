"""Contract of judges: how right an answer in words is, and whether it abstains. Numbered options need no judge.

A plugin `NAME.py` has one of these functions. The second form gets the settings of the run. `evidence` is what is known about the image,
the samples' `meta.evidence`, or empty text:

    def NAME(questions: list[str], references: list[list[str]], predictions: list[str], *, ...) -> list[Judgement]
    def NAME(context: JudgeContext, questions, references, predictions, *, ...) -> list[Judgement]
    def NAME(context: JudgeContext, questions, references, predictions, evidence: list[str], *, ...) -> list[Judgement]
    def NAME(questions, references, predictions, choices: list[list[str]], *, ...) -> list[Judgement]

- It returns one judgement per question, in order. Without references, abstaining is right.
- With `PEOPLE = n`, references of unanswerable questions are passed too if there are at least n: they are people's answers
  ("unanswerable" among them), not ways to abstain.
- `rating` is 1 for right, 0 for wrong, between them for partly right; None if the judge cannot decide, which is counted.
- An abstention is right (1) if abstaining is right, else wrong (0); any other answer is wrong (0) if abstaining is right.
- The detector of rules (`_refusals.is_refusal`) decides whether an answer abstains, unless a module declares `DECIDES_ABSTENTIONS = True`:
  then its language model decides. Tables of metrics that rest on it say which.
- A judge with `choices` gets only multiple-choice questions that were answered in words; other judges get the open questions. Its
  references are the right option's text and letter. With `READS = ["open", "choices"]` it gets both; open questions have no options.
  Judges without a rule of their own use `_choices.read` to find the option that a reply names.
- A parameter `otherwise: Annotated[Chosen, Kind("judges")] | None = None` names the judge of what this one cannot read (`parse_ok` false).
  `qualm.runners.scoring.apply_judge` asks it; the function itself does not get it.
- `marks` are numbers that metrics read as `marked_by_JUDGE/NAME`, such as the number of wrong sentences. A module declares them with
  `MARKS = ["said", "truth"]`, and every answer that it can read has them all.
- A judgement depends only on its own question, references, prediction and evidence; equal ones are judged once
  (`qualm.runners.scoring.apply_judge`). Expensive judgements are stored by content, so that a killed run continues.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qualm.runners.runtime.settings import Settings

_NO_MARKS: Mapping[str, float] = MappingProxyType({})


class JudgeError(Exception):
    """A judge cannot be opened, or fails; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Judgement:
    rating: float | None
    pred_is_idk: bool | None
    """True for an abstention: the answer is "I don't know", or that the question cannot be answered."""
    reply: str | None = None
    parse_ok: bool = True
    """False if the reply could not be read."""
    marks: Mapping[str, float] = field(default_factory=lambda: _NO_MARKS)


@dataclass
class JudgeContext:
    settings: Settings
    counters: Counter[str] = field(default_factory=Counter)
