"""Metrics of a spec that no answer of a model has a value for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from qualm.registry import ALL
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.evaluate import why_absent
from qualm.runners.scoring.measuring.metrics import Metric


class AbsentMetrics:
    """Collects the metrics that are undefined for all answers of a model, with the reasons."""

    def __init__(self, metrics: Sequence[Metric], models: Collection[str]) -> None:
        """Take the spec's metrics and the models to watch; cells of other models are ignored."""
        self.metrics, self.models = metrics, models
        self.measured: set[tuple[str, str]] = set()
        self.reasons: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        """(model, metric) -> dataset -> first variant without a value, and the reason."""

    def add(self, cell: Cell) -> None:
        for metric in self.metrics if cell.model in self.models else ():
            key = (cell.model, metric.label)
            if cell.applies(frozenset(metric.reads)):
                self.measured.add(key)
            elif key not in self.measured:
                self.reasons.setdefault(key, {}).setdefault(cell.samples.name, (cell.variant, why_absent(metric, cell)))

    def rows(self) -> list[dict[str, Any]]:
        """Return a LABELLED_SCORES row without value per dataset, for metrics a model has on none."""
        none = {"value": None, "low": None, "high": None, "n": 0, "n_unscored": 0}
        return [
            {"model": model, "dataset": dataset, "variant": variant, "slice": ALL, "metric": label, "why": why, **none}
            for (model, label), by_dataset in self.reasons.items()
            if (model, label) not in self.measured
            for dataset, (variant, why) in by_dataset.items()
        ]
