"""What is simulated, and what was counted so far: in git, so that `make simulate` goes on from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from qualm.registry.system.atomic import write_text

KEPT = Path(__file__).with_name("tallies.jsonl")
Row = tuple[str | int | float, ...]
Entry = tuple[str, str]
"""(metric that is a row of the table or "", column)."""
Outcomes = Mapping[Entry, float | None]
"""Of one sample: 1 where an interval holds or a test rejects, 0 where not; None where there is none."""


@dataclass(frozen=True)
class Aim:
    """What a column is to be."""

    low: float
    high: float
    word: str
    too_low: str
    """Reading of a value below: `fails` or `conservative`."""
    too_high: str

    def __str__(self) -> str:
        return self.word


COVERAGE = Aim(0.93, 0.97, "coverage .93 to .97", "fails", "conservative")
SIZE = Aim(0.03, 0.06, "error rate at most .06 (conservative below .03)", "conservative", "fails")
PROMISE = Aim(0.07, 0.10, "at most .10, the promise (conservative below .07)", "conservative", "fails")
EDGE = Aim(0.03, 0.05, "error rate at most .05 at the edge of the margin (conservative below .03)", "conservative", "fails")


@dataclass(frozen=True)
class Question:
    """One table: a row of the simulation is drawn as a whole, from its own random numbers."""

    name: str
    heads: tuple[str, ...]
    """Of what tells rows apart."""
    rows: tuple[Row, ...]
    entries: Callable[[Row], list[Entry]]
    draw: Callable[[Row, np.random.Generator], Outcomes]
    aims: Mapping[str, Aim]
    """Of each column."""
    times: int = 1
    """As many times the samples of other tables; of what is drawn in milliseconds."""


@dataclass
class Tally:
    """Of one entry of a table."""

    defined: int = 0
    """Samples that have an interval, a test or a promise."""
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float | None) -> None:
        """Count one sample."""
        if value is not None:
            self.defined, self.total, self.squares = self.defined + 1, self.total + value, self.squares + value * value

    @property
    def mean(self) -> float:
        return self.total / self.defined if self.defined else math.nan

    @property
    def error(self) -> float:
        """Standard error of the mean by the simulation's own chance; of shares near 0 and 1 that of two samples more."""
        n = max(1, self.defined)
        spread = self.squares / n - (self.total / n) ** 2
        p = (self.total + 1) / (n + 2)
        return math.sqrt(max(spread, p * (1 - p) if self.squares == self.total else 0.0) / n)


@dataclass
class Tallied:
    """Of one row."""

    samples: int = 0
    entries: dict[Entry, Tally] = field(default_factory=dict)

    def add(self, outcomes: Outcomes) -> None:
        """Count one sample."""
        self.samples += 1
        for entry, value in outcomes.items():
            self.entries.setdefault(entry, Tally()).add(value)


class Tallies(dict[tuple[str, Row], Tallied]):
    """All that was counted, by question and row."""

    @classmethod
    def read(cls, file: Path = KEPT) -> Tallies:
        """Read what is kept."""
        tallies = cls()
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
            question, row, samples, entries = json.loads(line)
            tallies[question, tuple(row)] = Tallied(samples, {(name, column): Tally(*counts) for name, column, *counts in entries})
        return tallies

    def write(self, file: Path = KEPT) -> None:
        """Keep it."""
        lines = []
        for (question, row), of in sorted(self.items(), key=lambda item: json.dumps(item[0])):
            entries = [[*entry, t.defined, round(t.total, 6), round(t.squares, 6)] for entry, t in of.entries.items()]
            lines.append(json.dumps([question, row, of.samples, entries], separators=(",", ":"), ensure_ascii=False))
        write_text(file, "".join(line + "\n" for line in lines))

    def batches(self, questions: Mapping[str, Question], samples: int, size: int) -> Iterator[tuple[str, Row, int]]:
        """Yield what is to be drawn, those rows first that have the fewest samples: question, row, first sample."""
        for first in range(0, samples, size):
            for name, question in questions.items():
                for row in question.rows:
                    for start in range(first * question.times, (first + size) * question.times, size):
                        if self.setdefault((name, row), Tallied()).samples <= start:
                            yield name, row, start


def simulate(question: Question, row: Row, first: int, count: int) -> list[Outcomes]:
    """Draw some samples of a row; sample k has the same random numbers whenever it is drawn."""
    place = question.rows.index(row)
    return [question.draw(row, np.random.default_rng([sum(question.name.encode()), place, k])) for k in range(first, first + count)]
