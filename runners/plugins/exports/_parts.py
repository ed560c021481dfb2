"""Units of an export: one model's answers to one dataset under one variant, sample by sample."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry import CLEAN, option_label
from qualm.runners.data.dataset import Variant
from qualm.runners.prompts.few_shot import user_turn


class ExportError(Exception):
    """An export that is impossible; the message says what is missing and what to do."""


@dataclass
class ExportEntry:
    """One sample and one model's answers to it under one variant."""

    place: int
    """Row of the sample in its dataset, doc_id or index in other tools; `sample_id` identifies it."""
    sample: dict[str, Any]
    question: str
    """Under the variant."""
    answers: list[dict[str, Any]]
    """Rows of GENERATIONS by draw, the greedy one first."""
    ratings: dict[str, float | None] = field(default_factory=dict)
    """Judge -> its rating of the greedy answer; None if unscored."""
    recorded: bool = False
    """The answers were made elsewhere, with their own prompt."""
    sent: str | None = None
    """That prompt, if the recording has it."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt of the stage that asked."""

    @property
    def name(self) -> str:
        return str(self.sample["sample_id"])

    @property
    def choices(self) -> list[str]:
        return list(self.sample["choices"] or ())

    @property
    def prompt(self) -> str | None:
        """Return the user's turn without the chat template; None if unknown."""
        return self.sent if self.recorded else user_turn(self.asked, self.sample, self.question)

    @property
    def by_numbers(self) -> bool:
        """Return true if the answer is read from option logits, not from its words."""
        return self.log_probabilities is not None

    @property
    def references(self) -> list[str]:
        return list(self.sample["references"] or ())

    @cached_property
    def log_probabilities(self) -> list[float] | None:
        """Return the log-softmax of the option logits; None without them."""
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
        """Return 1 if the likeliest option is right, else 0; None without logits or right option."""
        right = self.sample["answer_index"]
        return None if self.predicted is None or right is None else int(self.predicted == right)

    @property
    def reply(self) -> str:
        """Return the greedy answer as text, else the likeliest option's label; "" without either."""
        text = self.answers[0]["text"]
        return text if text is not None else option_label(self.predicted) if self.predicted is not None else ""


@dataclass(frozen=True)
class ExportPart:
    model: str
    dataset: str
    variant: Variant
    seed: int
    samples: Path
    generations: Path
    recorded: Mapping[str, Any] | None = None
    """Arguments of the model `recorded`, for answers that were made elsewhere."""
    source: Path | None = None
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt of the stage that asked."""

    @property
    def shots(self) -> int:
        """Return the number of examples before each question."""
        examples = self.prompt.get("examples", {})
        return len(examples["written"]) if "written" in examples else int(examples.get("shots", 0))

    @property
    def task(self) -> str:
        """Return the slug of "DATASET@VARIANT", or of "DATASET" for the clean variant."""
        return slug(self.dataset if self.variant.name == CLEAN else f"{self.dataset}@{self.variant.name}")


def slug(label: str) -> str:
    """Return a label with only characters safe in file names; "unnamed" if none is left."""
    return re.sub(r"[^A-Za-z0-9_.@=-]+", "-", label).strip("-") or "unnamed"
