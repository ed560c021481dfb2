"""What a resolved spec is: everything it names, spelled out.

It holds no positions, comments, orders of keys or ways to write a number, so that two specs that mean the same give the
same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler.refs import Ref
from compiler.sections.abstentions import AbstentionUse
from compiler.sections.conformal import ConformalUse
from compiler.sections.datasets import DatasetUse
from compiler.sections.pairsets import PairSetUse
from compiler.sections.tuned import FinetuneUse, ModelUse
from compiler.spec import Spec


@dataclass(frozen=True)
class Resolved:
    """A spec, spelled out."""

    spec: Spec
    seed: int
    files: tuple[Path, ...]
    datasets: tuple[DatasetUse, ...]
    pairs: tuple[PairSetUse, ...]
    models: tuple[ModelUse, ...]
    finetunes: tuple[FinetuneUse, ...]
    perturbations: tuple[Ref, ...]
    judges: tuple[Ref, ...]
    estimators: tuple[Ref, ...]
    conformal: tuple[ConformalUse, ...]
    abstentions: tuple[AbstentionUse, ...]
    metrics: tuple[Ref, ...]

    @property
    def data(self) -> list[DatasetUse | PairSetUse]:
        """Data sets and pair sets."""
        return [*self.datasets, *self.pairs]

    @property
    def evaluated(self) -> list[DatasetUse | PairSetUse]:
        """What models answer, sorted by label."""
        return sorted((d for d in self.data if d.evaluate), key=lambda d: d.label)

    @property
    def scored_models(self) -> list[str]:
        """Every name that scores have: models, and models that abstain."""
        return [*(m.ref.label for m in self.models), *(name for a in self.abstentions for name in a.models)]

    def judges_of(self, dataset: DatasetUse | PairSetUse) -> list[str]:
        """Labels of the judges of a data set's answers, the one that scores use first. A name without its sweep means all points of it."""
        labels = [judge.label for judge in self.judges]
        if dataset.judges is None:
            return labels
        return [label for name in dataset.judges for label in labels if name in (label, label.split("@")[0])]

    def cells(self) -> int:
        """Models x data sets x variants x estimators (at least one of each)."""
        return len(self.models) * len(self.evaluated) * (1 + len(self.perturbations)) * max(1, len(self.estimators))
