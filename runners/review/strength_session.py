"""State of a calibration page: samples, strengths, votes, and what was written."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import PIL.Image

from qualm.runners.data.dataset import BrokenSampleError
from qualm.runners.review.bench import Answer, Bench
from qualm.runners.review.knobs import Knob
from qualm.runners.review.votes import Vote, Votes

SAMPLES_SHOWN = 4
"""Number of samples on the page."""

Writer = Callable[[str, float, bool, str], str]
"""Function of parameter, value, whether to add to a sweep, and comment; returns what was done."""


class WriteError(Exception):
    """A value cannot be written into the spec; the message says why."""


@dataclass(frozen=True)
class SampleSide:
    picture: PIL.Image.Image | None
    question: str
    answer: Answer | None


@dataclass(frozen=True)
class SampleView:
    sample_id: str
    options: Sequence[str]
    before: SampleSide | None
    """None if its image cannot be read."""
    after: SampleSide | None
    """None if the perturbation does not apply."""
    same: bool
    """True if the perturbation changed nothing."""

    @property
    def changed(self) -> bool:
        """Return true if the answers to both versions are known and differ."""
        answers = [side.answer for side in (self.before, self.after) if side is not None and side.answer is not None]
        return len(answers) == 2 and answers[0].key != answers[1].key


class StrengthSession:
    """State of a strength page: samples shown, strengths, votes and what was written."""

    def __init__(self, bench: Bench, knobs: Sequence[Knob], votes: Votes, reviewer: str, writer: Writer | None) -> None:
        self.bench, self.knobs, self.votes, self.reviewer, self.writer = bench, knobs, votes, reviewer, writer
        self.values: dict[str, float] = {k.name: k.rounded(float(bench.subject.args[k.name])) for k in knobs}
        self._written = dict(self.values)
        self._order = _pictures_apart([s["image_id"] for s in bench.dataset.samples])
        self._start = 0

    @property
    def rows(self) -> list[int]:
        """Return the row numbers of the samples on the page."""
        return self._order[self._start : self._start + SAMPLES_SHOWN]

    @property
    def place(self) -> tuple[int, int, int]:
        """Return (first, last, total): positions of the samples on the page, from 1."""
        return self._start + 1, self._start + len(self.rows), len(self._order)

    @property
    def variant(self) -> str:
        """Return the variant's name at the current strengths."""
        return self.bench.subject.variant(self.values).name

    def turn(self, strengths: Mapping[str, float | None]) -> None:
        """Set strengths by parameter; None or no finite number leaves a strength unchanged."""
        for knob in self.knobs:
            value = strengths.get(knob.name)
            if value is not None and math.isfinite(value):
                self.values[knob.name] = knob.rounded(float(value))

    def move(self, by: int) -> None:
        """Move on by `by` batches of samples, cyclically."""
        batches = -(-len(self.bench.dataset) // SAMPLES_SHOWN)
        self._start = (self._start // SAMPLES_SHOWN + by) % batches * SAMPLES_SHOWN

    def ask(self) -> None:
        """Ask the model about the samples on the page, clean and at the current strengths."""
        rows, values = self.rows, dict(self.values)
        self.bench.answers(None, rows)
        self.bench.answers(values, rows)

    def views(self) -> list[SampleView]:
        """Return the samples on the page, clean and perturbed, with the answers known so far."""
        clean, perturbed = self.bench.cached_answers(None), self.bench.cached_answers(self.values)
        return [self._view(row, clean, perturbed) for row in self.rows]

    def _view(self, row: int, clean: Mapping[str, Answer], perturbed: Mapping[str, Answer]) -> SampleView:
        sample = self.bench.dataset.samples[row]
        name, options = str(sample["sample_id"]), list(sample["choices"] or ())
        try:
            before, after = self.bench.item(row, None), self.bench.item(row, self.values)
        except BrokenSampleError:
            return SampleView(name, options, None, None, False)
        assert before is not None  # it was not perturbed
        sides = [
            None if content is None else SampleSide(*content, answers.get(name))
            for content, answers in ((before, clean), (after, perturbed))
        ]
        return SampleView(name, options, sides[0], sides[1], after is not None and _equal(before, after))

    def vote(self, verdict: str) -> None:
        """Record a vote on this batch at these strengths; the last one counts."""
        dataset = self.bench.dataset
        batch = " ".join(str(dataset.samples[row]["sample_id"]) for row in self.rows)
        self.votes.record(Vote(self.variant, dataset.name, batch, self.reviewer, verdict))

    @property
    def tally(self) -> dict[str, Counter[str]]:
        return self.votes.tally(self.bench.dataset.name, self.bench.subject.plugin.name)

    def write(self, add_to_sweep: bool) -> list[str]:
        """Write changed strengths into the spec, or its sweeps; return messages, or WriteError."""
        if self.writer is None:
            raise WriteError("the perturbations are in a spec that this one extends; set the strengths there, or write them here")
        names = [k.name for k in self.knobs if self.values[k.name] != self._written[k.name]]
        if not names:
            return ["the spec has these values already; nothing was written"]
        votes = self.tally.get(self.variant, Counter())
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in votes.items())
        done = [self.writer(name, self.values[name], add_to_sweep, f"by eye, votes: {verdicts}" if verdicts else "") for name in names]
        self._written = dict(self.values)
        return done


def _pictures_apart(pictures: Sequence[str | None]) -> list[int]:
    """Return row numbers ordered so that an image repeats only after all others."""
    counts: Counter[str | None] = Counter()
    turns = []
    for row, picture in enumerate(pictures):
        turns.append((counts[picture] if picture is not None else 0, row))
        counts[picture] += 1
    return [row for _, row in sorted(turns)]


def _equal(before: tuple[PIL.Image.Image | None, str], after: tuple[PIL.Image.Image | None, str]) -> bool:
    pictures = (before[0], after[0])
    same = pictures[0] is pictures[1] or (
        pictures[0] is not None and pictures[1] is not None and pictures[0].tobytes() == pictures[1].tobytes()
    )
    return same and before[1] == after[1]
