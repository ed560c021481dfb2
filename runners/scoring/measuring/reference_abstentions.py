"""Decide from references which questions are answerable, as a judge reads them.

CertainlyUncertain (equation 1) normalises the ground truth like a prediction: a question whose reference abstains is unanswerable.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qualm.registry.sample import Sample
from qualm.runners.runtime.settings import Settings
from qualm.runners.scoring.apply_judge import Answered, judge


@dataclass(frozen=True)
class DecidedSamples:
    """Samples whose `answerable` a judge has set, and ids of those that it could not read."""

    samples: list[Sample]
    unread: dict[str, str]
    """Ids of samples whose references the judge could not read, with its reply."""

    @property
    def summary(self) -> str:
        """Return a phrase: how many questions are unanswerable or unread, and how many pairs."""
        idk = sum(not sample.answerable for sample in self.samples)
        pairs = len({sample.pair_id for sample in self.samples} - {None})
        return (
            f"references abstain in {idk:,} of {len(self.samples):,} questions ({len(self.unread):,} could not be read and are left out); "
            f"{pairs:,} pairs"
        )


def decide_answerable(samples: Sequence[Sample], ref: Mapping[str, Any], settings: Settings, counters: Counter[str]) -> DecidedSamples:
    """Set `answerable`: False if most references abstain; set samples with unread ones apart.

    A question is unanswerable if more than half of its references abstain. Multiple-choice questions and questions without references
    stay as they are. A `pair_id` stays only where it is of one answerable and one unanswerable sample.

    Args:
        ref: `label`, `plugin` and `args` of the judge.

    Raises:
        JudgeError: the judge cannot be opened, or fails.
    """
    asked = [(i, text) for i, sample in enumerate(samples) if not sample.choices for text in sample.references]
    judged = judge(ref, [Answered(samples[i].question, (), text) for i, text in asked], settings, counters)
    votes: dict[int, list[bool | None]] = defaultdict(list)
    unread: dict[str, str] = {}
    for (i, _), verdict in zip(asked, judged, strict=True):
        votes[i].append(verdict.pred_is_idk)
        if verdict.pred_is_idk is None:
            unread[samples[i].sample_id] = verdict.reply or ""
    read = [(i, sample) for i, sample in enumerate(samples) if sample.sample_id not in unread]
    decided = [replace(sample, answerable=2 * votes[i].count(True) <= len(votes[i])) if votes[i] else sample for i, sample in read]
    members: dict[str | None, list[bool]] = defaultdict(list)
    for sample in decided:
        members[sample.pair_id].append(sample.answerable)
    return DecidedSamples([s if sorted(members[s.pair_id]) == [False, True] else replace(s, pair_id=None) for s in decided], unread)
