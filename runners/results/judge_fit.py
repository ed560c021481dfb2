"""Tell where a judge does not fit the answers that it is given: it rates none as right, or compares sentences with single words."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

from qualm.runners.scoring.apply_judge import Answered

MIN_ANSWERS = 10
"""Answers below which nothing is said of a judge."""
LONG_REPLY = 8
"""Words that make a reply a sentence."""
LONGER = 4
"""A reply of so many times the words of the reference is much longer."""
MAX_KEPT = 10_000
"""Answers of a model to a dataset that are looked at."""
BETTER = {"exact_match": "rules", "vqa": "rules", "rules": "lave"}
"""Judge that compares words -> the judge that reads sentences better."""
_NUMBER = re.compile(r"[\W\d_]*\d[\W\d_]*")


@dataclass
class AnswerLengths:
    """Word counts of one model's open answers to a dataset, and of their references."""

    replies: list[int] = field(default_factory=list)
    references: list[int] = field(default_factory=list)
    numbers: int = 0
    example: Answered | None = None

    def add(self, answers: Iterable[Answered | None]) -> None:
        """Append word counts of open answers that have references, until MAX_KEPT are held."""
        for answer in answers:
            if answer is None or answer.choices or not answer.references or len(self.replies) == MAX_KEPT:
                continue
            self.replies.append(len(answer.prediction.split()))
            self.references.append(max(len(reference.split()) for reference in answer.references))
            self.numbers += all(_NUMBER.fullmatch(reference) for reference in answer.references)
            self.example = self.example or answer

    def misfits(self, judge: str, plugin: str, n_right: int, n_rated: int) -> Iterator[str]:
        """Yield at most one sentence: why a judge does not fit these answers, and one that does.

        Of the answers with references it rates `n_rated`, and `n_right` of them above 0.
        """
        if min(len(self.replies), n_rated) < MIN_ANSWERS or self.example is None:
            return
        fitting = "final_value" if self.numbers > len(self.replies) / 2 else BETTER.get(plugin, "lave")
        fitting = "lave" if fitting == plugin else fitting
        words, expected = median(self.replies), median(self.references)
        if not n_right:
            said, wanted = _short(self.example.prediction), _short(self.example.references[0])
            yield f"judge '{judge}' rates none of {n_rated} answers as right (expected '{wanted}', got '{said}'); compare with `{fitting}`"
        elif plugin in BETTER and words >= LONG_REPLY and words >= LONGER * expected:
            yield (
                f"replies are much longer than references (median {words:g} words, {expected:g}); judge '{judge}' compares words, and "
                f"a right answer in other words counts as wrong: compare with `{fitting}`"
            )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
