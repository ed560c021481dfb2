"""Abstentions: from answers whose truth is known, the confidence below which a model had better not answer, and how to read it.

The contract of a plugin `NAME.py`:

    def NAME(fit: Answers, *, parameter: type = default) -> Rule

- `fit` holds the open answers of one model to one dataset (or to one category of it) that thresholds may be chosen on:
  clean, judged, with a confidence. It may be empty.
- The rule's `threshold` t means: an answer of confidence p < t becomes "I don't know". 0 keeps every answer.
- `temperature` and `shift` read confidences anew before the threshold is compared: sigmoid(logit(p) / temperature + shift).
- A plugin sees nothing but `fit`; which rows those are, and to which rows the rule is then applied, is the business of the
  `abstain` stage (the spec's `fit:` and `per:`).
- `statement` says in one sentence, for the report, what the rule promises; `attained` is False where what was asked for
  could not be had and the rule is what is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Judged open answers, as columns of one length."""

    confidence: Floats
    """How sure the model was, 0..1."""
    correct: Floats
    """0..1; a refusal is right where the question has no answer."""
    pred_is_idk: Floats
    gt_is_idk: Floats
    group: NDArray[np.int64]
    """Rows of one group are not independent."""
    turned_confidence: Literal["kept", "complement"] = "kept"
    """Confidence of an answer that becomes a refusal: the one it had, or one minus it."""

    def __len__(self) -> int:
        return len(self.confidence)

    def read_anew(self, temperature: float | Floats, shift: float | Floats = 0.0) -> Answers:
        """The answers with confidences on another scale; those of 0 and 1 stay what they are."""
        return replace(self, confidence=rescaled(self.confidence, temperature, shift))

    def turned(self, threshold: float | Floats) -> NDArray[np.bool_]:
        """Which answers become refusals: those of less confidence that are not refusals already. One threshold, or one per answer."""
        turned: NDArray[np.bool_] = (self.confidence < threshold) & (self.pred_is_idk == 0)
        return turned

    def after(self, threshold: float | Floats) -> Answers:
        """The answers under a threshold, or under one each."""
        turned = self.turned(threshold)
        other = 1 - self.confidence if self.turned_confidence == "complement" else self.confidence
        return replace(
            self,
            confidence=np.where(turned, other, self.confidence),
            correct=np.where(turned, self.gt_is_idk, self.correct),
            pred_is_idk=np.where(turned, 1.0, self.pred_is_idk),
        )

    def rows(self, chosen: NDArray[np.bool_]) -> Answers:
        columns = {name: getattr(self, name)[chosen] for name in ("confidence", "correct", "pred_is_idk", "gt_is_idk", "group")}
        return replace(self, **columns)


def rescaled(confidence: Floats, temperature: float | Floats, shift: float | Floats) -> Floats:
    """Confidences under a temperature and a shift of their log odds; NaN stays NaN.

    >>> rescaled(np.array([0.5, 0.8, 1.0]), 2.0, 0.0).round(4).tolist()
    [0.5, 0.6667, 1.0]
    """
    from scipy.special import expit, logit

    plain = (np.asarray(temperature) == 1) & (np.asarray(shift) == 0)
    return np.where(plain, confidence, expit(logit(confidence) / temperature + shift))


@dataclass(frozen=True)
class AbstentionRule:
    """What a plugin decides."""

    threshold: float
    """Answers of less confidence become refusals; NaN where there was nothing to choose on."""
    statement: str
    attained: bool = True
    temperature: float = 1.0
    """Above 1 makes confidences less extreme."""
    shift: float = 0.0
    """Above 0 raises them."""
