"""What is exported: one model's answers to one dataset under one variant, sample by sample."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry import CLEAN
from qualm.runners.data.dataset import Variant
from qualm.runners.prompts.question import render_question

LETTERS = string.ascii_uppercase


class ExportError(Exception):
    """An export that cannot be made: what is missing or does not fit, and what to do."""


@dataclass
class ExportEntry:
    """One sample and one model's answers to it under one variant."""

    place: int
    """Row of the sample in its dataset: what other tools call doc_id or index. It is no identity; `sample_id` stands beside it."""
    sample: dict[str, Any]
    question: str
    """As the variant has it."""
    answers: list[dict[str, Any]]
    """Rows of GENERATIONS by draw, the greedy one first."""
    ratings: dict[str, float | None] = field(default_factory=dict)
    """Judge -> its rating of the greedy answer; None = it could not be scored."""
    recorded: bool = False
    """The answers were made elsewhere, with a prompt of their own."""
    sent: str | None = None
    """That prompt, where the recording keeps it."""

    @property
    def name(self) -> str:
        return str(self.sample["sample_id"])

    @property
    def choices(self) -> list[str]:
        return list(self.sample["choices"] or ())

    @property
    def prompt(self) -> str | None:
        """The user's turn. The chat template around it is the model's own and not kept with the answers. None where nobody knows it."""
        return self.sent if self.recorded else render_question(self.question, self.choices)

    @property
    def by_numbers(self) -> bool:
        """Whether the answer is read from its options' numbers, not from its words."""
        return self.log_probabilities is not None

    @property
    def references(self) -> list[str]:
        return list(self.sample["references"] or ())

    @cached_property
    def log_probabilities(self) -> list[float] | None:
        """Of the options among themselves: log-softmax of their logits; None where there are none."""
        logits = self.answers[0]["option_logits"]
        if not self.choices or not logits or len(logits) != len(self.choices):
            return None
        values = np.asarray(logits, dtype=np.float64)
        top = values.max()
        return [float(v) for v in values - (top + np.log(np.exp(values - top).sum()))]

    @property
    def predicted(self) -> int | None:
        return None if self.log_probabilities is None else int(np.argmax(self.log_probabilities))

    @property
    def correct(self) -> int | None:
        """Of a question with options, whether the most likely one is right; None where nothing says."""
        right = self.sample["answer_index"]
        return None if self.predicted is None or right is None else int(self.predicted == right)

    @property
    def reply(self) -> str:
        """The answer as text; where only options were scored, the letter of the most likely."""
        text = self.answers[0]["text"]
        return text if text is not None else LETTERS[self.predicted] if self.predicted is not None else ""


@dataclass(frozen=True)
class ExportPart:
    """One model's answers to one dataset under one variant."""

    model: str
    dataset: str
    variant: Variant
    seed: int
    samples: Path
    generations: Path
    recorded: Mapping[str, Any] | None = None
    """Of answers that were made elsewhere: the arguments of the model `recorded`. How these were asked for is not ours to say."""
    source: Path | None = None

    @property
    def task(self) -> str:
        """What other tools will call the data."""
        return slug(self.dataset if self.variant.name == CLEAN else f"{self.dataset}@{self.variant.name}")


def slug(label: str) -> str:
    """A label as part of a file name, as other tools allow."""
    return re.sub(r"[^A-Za-z0-9_.@=-]+", "-", label).strip("-") or "unnamed"
