"""Judged answers and the rule that an abstention plugin chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Judged answers to open questions with their confidences, as columns of one length."""

    confidence: Floats
    """0..1."""
    correct: Floats
    """0..1; an abstention is right for an unanswerable question."""
    pred_is_idk: Floats
    gt_is_idk: Floats
    group: NDArray[np.int64]
    """Group of each row; rows of one group are not independent."""
    turned_confidence: Literal["kept", "complement"] = "kept"
    """Confidence of an answer that becomes an abstention: its own, or its complement."""

    def __len__(self) -> int:
        return len(self.confidence)

    def rescaled(self, temperature: float | Floats, shift: float | Floats = 0.0) -> Answers:
        """Return a copy with confidences rescaled by `rescale_confidence`; 0 and 1 stay."""
        return replace(self, confidence=rescale_confidence(self.confidence, temperature, shift))

    def becomes_abstention(self, threshold: float | Floats) -> NDArray[np.bool_]:
        """Return a mask (n,): confidence is below `threshold` and the answer is no abstention."""
        turned: NDArray[np.bool_] = (self.confidence < threshold) & (self.pred_is_idk == 0)
        return turned

    def abstain_below(self, threshold: float | Floats) -> Answers:
        """Return a copy in which answers with confidence below `threshold` are made abstentions."""
        turned = self.becomes_abstention(threshold)
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


def rescale_confidence(confidence: Floats, temperature: float | Floats, shift: float | Floats) -> Floats:
    """Return confidences whose log odds are divided by `temperature`, plus `shift`; NaN stays.

    >>> rescale_confidence(np.array([0.5, 0.8, 1.0]), 2.0, 0.0).round(4).tolist()
    [0.5, 0.6667, 1.0]
    """
    from scipy.special import expit, logit

    plain = (np.asarray(temperature) == 1) & (np.asarray(shift) == 0)
    return np.where(plain, confidence, expit(logit(confidence) / temperature + shift))


@dataclass(frozen=True)
class AbstentionRule:
    """Threshold and rescaling of confidence that an abstention plugin chose."""

    threshold: float
    """Answers of less confidence become abstentions; NaN if there was nothing to choose on."""
    statement: str
    attained: bool = True
    temperature: float = 1.0
    """Values above 1 make confidences less extreme."""
    shift: float = 0.0
    """Values above 0 raise confidences."""
