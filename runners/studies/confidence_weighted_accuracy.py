"""Does confidence-weighted accuracy say something that accuracy and calibration error do not? CertainlyUncertain, figure 4.

Over all models of a spec, those that abstain among them: how it goes together with accuracy and with ECE.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.sample import CLEAN
from qualm.runners.data.aligned import Floats
from qualm.runners.runtime.precision import significant
from qualm.runners.runtime.records import write_csv

STUDIED = "confidence_weighted_accuracy"
AGAINST = ("lave_idk_accuracy", "accuracy", "ece")
FIELDS = ["dataset", "slice", "metric", "model", "value", STUDIED]
FEWEST = 3
"""Models without which a correlation is always perfect."""


def points(rows: Sequence[Mapping[str, Any]], plugins: Mapping[str, str]) -> list[dict[str, Any]]:
    """A point per model, dataset, slice and metric that confidence-weighted accuracy is set against.

    Args:
        rows: of the score table.
        plugins: metric label (without brackets) -> its plugin.
    """
    clean = [r for r in rows if r["variant"] == CLEAN and r["value"] is not None]
    studied = {(r["model"], r["dataset"], r["slice"]): r["value"] for r in clean if plugins.get(r["metric"]) == STUDIED}
    points = []
    for r in clean:
        key = (r["model"], r["dataset"], r["slice"])
        if plugins.get(r["metric"].partition("[")[0]) in AGAINST and key in studied:
            named = {name: r[name] for name in ("dataset", "slice", "metric", "model", "value")}
            points.append(named | {STUDIED: studied[key]})
    return sorted(points, key=lambda p: tuple(p[name] for name in FIELDS[:4]))


def correlations(points: Sequence[Mapping[str, Any]], level: float) -> Iterator[dict[str, Any]]:
    """Pearson's and Spearman's correlation over the models, per dataset, slice and metric.

    Null where fewer than three models have both values or one of them does not vary. The interval of Pearson's is
    Fisher's, and takes models for independent draws, which tunings of one base are not: read it as a rough guide.
    """
    for key in dict.fromkeys((p["dataset"], p["slice"], p["metric"]) for p in points):
        here = [p for p in points if (p["dataset"], p["slice"], p["metric"]) == key]
        x, y = (np.array([p[name] for p in here], dtype=np.float64) for name in ("value", STUDIED))
        same = dict(zip(("dataset", "slice", "metric"), key, strict=True)) | {"studied": STUDIED, "n_models": len(here)}
        yield same | {name: None if math.isnan(v) else v for name, v in _correlation(x, y, level).items()}


def _correlation(x: Floats, y: Floats, level: float) -> dict[str, float]:
    from scipy import stats

    names = ("pearson", "pearson_low", "pearson_high", "pearson_p", "spearman", "spearman_p")
    if len(x) < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return dict.fromkeys(names, math.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        pearson, spearman = stats.pearsonr(x, y), stats.spearmanr(x, y)
    low, high = pearson.confidence_interval(level) if len(x) > FEWEST else (math.nan, math.nan)
    values = (pearson.statistic, low, high, pearson.pvalue, spearman.statistic, spearman.pvalue)
    return {name: significant(float(v)) if name.endswith("_p") else float(v) for name, v in zip(names, values, strict=True)}


def write_points(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    write_csv(path, FIELDS, points)
