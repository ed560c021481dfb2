"""Store votes on strengths as lines of a journal; a person's last vote on a batch counts."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from qualm.runners.runtime.journal import Journal

CHOICES = ("too weak", "right", "too strong")


class VoteError(Exception):
    """A vote cannot be stored, or a journal cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Vote:
    """A person's vote on a batch at one strength."""

    variant: str
    dataset: str
    batch: str
    """Ids of the samples, separated by spaces."""
    reviewer: str
    verdict: str
    """One of CHOICES."""


class Votes:
    """Votes on strengths, stored in a journal file."""

    def __init__(self, path: Path) -> None:
        self.path, self._journal = path, Journal(path)
        self._now: dict[tuple[str, str, str, str], Vote] = {}
        for number, fields in self._journal.rows():
            if len(fields) != 5 or fields[4] not in CHOICES:
                raise VoteError(f"{path}:{number}: not a line of a journal of votes; correct or delete it")
            self._apply(Vote(*fields))

    def record(self, vote: Vote) -> None:
        """Store a vote in the journal, on disk on return; VoteError if it cannot be written."""
        if vote.verdict not in CHOICES:
            raise ValueError(f"expected one of {', '.join(CHOICES)}, got '{vote.verdict}'")
        try:
            self._journal.append_row([vote.variant, vote.dataset, vote.batch, vote.reviewer, vote.verdict])
        except OSError as error:
            raise VoteError(f"{self.path}: {error.strerror or error}; this vote is not kept, earlier ones are") from error
        self._apply(vote)

    def tally(self, dataset: str, perturbation: str) -> dict[str, Counter[str]]:
        """Return variant -> Counter of verdicts on a perturbation: each reviewer's last per batch."""
        by_variant: dict[str, Counter[str]] = {}
        for vote in self._now.values():
            if vote.dataset == dataset and vote.variant.partition("@")[0] == perturbation:
                by_variant.setdefault(vote.variant, Counter())[vote.verdict] += 1
        return by_variant

    def _apply(self, vote: Vote) -> None:
        self._now[vote.variant, vote.dataset, vote.batch, vote.reviewer] = vote
