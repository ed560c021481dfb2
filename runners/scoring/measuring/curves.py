"""Data of the plots: reliability diagrams, risk-coverage curves, histograms of set sizes. Clean variant only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.sample import CLEAN
from qualm.runners.data.aligned import Floats
from qualm.runners.runtime.records import write_csv_cells
from qualm.runners.scoring.binning import Calibrated, bin_of
from qualm.runners.scoring.cells import Cell

BINS = 15
POINTS = 200

FIELDS = {
    "reliability": ["model", "dataset", "setting", "bin_low", "bin_high", "confidence", "accuracy", "n", "expected_low", "expected_high"],
    "risk_coverage": ["model", "dataset", "coverage", "risk"],
    "set_sizes": ["model", "dataset", "setting", "score", "size", "count"],
}


class Curves:
    """Collects plot data of each model's clean answers, and writes it to CSV files."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[Any]]] = {name: [] for name in FIELDS}

    def add(self, cell: Cell) -> None:
        if cell.variant != CLEAN:
            return
        names = [cell.model, cell.samples.name]
        confidence, correct = cell.columns["confidence"], cell.columns["correct"]
        scored = ~np.isnan(confidence) & ~np.isnan(correct)
        tests = {name: setting.is_calibration == 0 for name, setting in cell.settings.items()} or {"": np.ones(len(correct), dtype=bool)}
        rows_of = {setting: scored & test for setting, test in tests.items()}
        parts = {rows.tobytes(): rows for rows in rows_of.values()}  # settings that test the same rows have the same bins
        bins_of = {part: [*reliability(confidence[rows], correct[rows], cell.samples.groups[rows])] for part, rows in parts.items()}
        for setting, rows in rows_of.items():
            self.rows["reliability"].extend([*names, setting, *row] for row in bins_of[rows.tobytes()])
        self.rows["risk_coverage"].extend([*names, *row] for row in risk_coverage(confidence[scored], correct[scored]))
        for setting, of in cell.settings.items():
            for score, columns in of.scores.items():
                sizes = columns["set_size"][tests[setting] & ~np.isnan(columns["set_size"])].astype(np.int64)
                counts = np.bincount(sizes)
                self.rows["set_sizes"].extend([*names, setting, score, k, int(counts[k])] for k in np.flatnonzero(counts))

    def write(self, name: str, path: Path) -> None:
        write_csv_cells(path, FIELDS[name], self.rows[name])


def reliability(confidence: Floats, correct: Floats, group: NDArray[Any]) -> Iterator[tuple[float, float, float, float, int, float, float]]:
    """Yield (bin low, high, confidence, accuracy, n, expected low, high) per non-empty bin.

    The bar holds the accuracy of 95% of samples if answers are calibrated (Broecker, Smith, 2007), with groups of answers.
    """
    place, as_if = bin_of(confidence, BINS, "torchmetrics"), Calibrated.fit(confidence, correct, group)
    for k in range(BINS + 1):
        rows = np.flatnonzero(place == k)
        if len(rows):
            low, high = k / BINS, min(1.0, (k + 1) / BINS)
            yield low, high, float(confidence[rows].mean()), float(correct[rows].mean()), len(rows), *as_if.band(rows)


def risk_coverage(confidence: Floats, correct: Floats) -> Iterator[tuple[float, float]]:
    """Yield (coverage, error rate of the answered) at up to POINTS falling thresholds.

    Equal confidences are answered together or not at all. At most POINTS points, full coverage always among them.
    """
    n = len(confidence)
    if not n:
        return
    order = np.argsort(-confidence, kind="stable")
    risk = 1 - np.cumsum(correct[order]) / np.arange(1, n + 1)
    ends = np.flatnonzero(np.r_[np.diff(confidence[order]) != 0, True])
    points = ends[np.unique(np.linspace(0, len(ends) - 1, min(POINTS, len(ends))).round().astype(int))]
    yield from zip(((points + 1) / n).tolist(), risk[points].tolist(), strict=True)
