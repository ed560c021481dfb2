"""Correlation of confidence-weighted accuracy with accuracy and calibration error over the models of a spec.

CertainlyUncertain, figure 4. Abstaining models are included. The paper's figure 4b claims that confidence-weighted accuracy correlates
with ECE more closely than accuracy does.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qualm.registry.sample import CLEAN
from qualm.runners.runtime.precision import round_result, significant
from qualm.runners.runtime.records import write_csv
from qualm.runners.scoring.measuring.labels import metric_of

STUDIED = "confidence_weighted_accuracy"
ACCURACY, ERRORS = "lave_idk_accuracy", ("ece_idk", "ece")
AGAINST = (ACCURACY, "accuracy", *ERRORS)
FIELDS = ["dataset", "slice", "metric", "model", "value", STUDIED]
MIN_MODELS = 3


def points(rows: Sequence[Mapping[str, Any]], plugin_of_metric: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return sorted clean rows of FIELDS: a compared metric and the one STUDIED."""
    clean = [{**r, "value": round_result(r["value"])} for r in rows if r["variant"] == CLEAN and r["value"] is not None]
    studied = {(r["model"], r["dataset"], r["slice"]): r["value"] for r in clean if plugin_of_metric.get(r["metric"]) == STUDIED}
    points = []
    for r in clean:
        key = (r["model"], r["dataset"], r["slice"])
        if plugin_of_metric.get(metric_of(r["metric"])) in AGAINST and key in studied:
            named = {name: r[name] for name in ("dataset", "slice", "metric", "model", "value")}
            points.append(named | {STUDIED: studied[key]})
    return sorted(points, key=lambda p: tuple(p[name] for name in FIELDS[:4]))


def correlations(points: Sequence[Mapping[str, Any]], level: float) -> Iterator[dict[str, Any]]:
    """Yield rows of each metric's correlations over models with confidence-weighted accuracy.

    There is a row per dataset, slice and metric of `points`, with Pearson's and Spearman's correlation; calibration errors have a second
    row, for their correlations with accuracy.

    Null where fewer than three models have both values or one of them does not vary. The interval of Pearson's is Fisher's, and assumes
    independent models, which tunings of one base are not: read it as a rough guide.
    """
    values = {(p["dataset"], p["slice"], p["metric"], p["model"]): p["value"] for p in points}
    for dataset, part, metric in dict.fromkeys((p["dataset"], p["slice"], p["metric"]) for p in points):
        here = [p for p in points if (p["dataset"], p["slice"], p["metric"]) == (dataset, part, metric)]
        same = {"dataset": dataset, "slice": part, "metric": metric}
        yield same | {"studied": STUDIED} | _correlation([(p["value"], p[STUDIED]) for p in here], level)
        if metric.partition("@")[0] in ERRORS:
            both = [(p["value"], values.get((dataset, part, ACCURACY, p["model"]))) for p in here]
            yield same | {"studied": ACCURACY} | _correlation([(x, y) for x, y in both if y is not None], level)


def _correlation(pairs: Sequence[tuple[float, float]], level: float) -> dict[str, Any]:
    from scipy import stats

    names = ("pearson", "pearson_low", "pearson_high", "pearson_p", "spearman", "spearman_p")
    x, y = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    if len(x) < MIN_MODELS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return {"n_models": len(x), **dict.fromkeys(names)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        pearson, spearman = stats.pearsonr(x, y), stats.spearmanr(x, y)
    low, high = pearson.confidence_interval(level) if len(x) > MIN_MODELS else (math.nan, math.nan)
    values = (pearson.statistic, low, high, pearson.pvalue, spearman.statistic, spearman.pvalue)
    numbers = {name: significant(float(v)) if name.endswith("_p") else float(v) for name, v in zip(names, values, strict=True)}
    return {"n_models": len(x), **{name: None if math.isnan(v) else v for name, v in numbers.items()}}


def claims(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (dataset, sentence) per calibration error: figure 4b's claim in numbers."""
    table = {(r["dataset"], r["metric"], r["studied"]): r for r in rows if r["slice"] == "all"}
    for (dataset, metric, studied), ours in table.items():
        theirs, between = table.get((dataset, metric, ACCURACY)), table.get((dataset, ACCURACY, STUDIED))
        if studied == STUDIED and metric.partition("@")[0] in ERRORS and theirs is not None and between is not None:
            yield dataset, _claim(metric, ours, theirs, between)


def _claim(metric: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], between: Mapping[str, Any]) -> str:
    n = ours["n_models"]
    if n < MIN_MODELS:
        return f"{metric}: too few models ({n}; a correlation needs {MIN_MODELS})"
    if ours["pearson"] is None or theirs["pearson"] is None:
        return f"{metric}: no correlation over {n} models, since one of the metrics does not vary"
    both = f"{STUDIED} {_with_limits(ours)}, {ACCURACY} {_with_limits(theirs)}"
    text = f"{metric}, correlation over {n} models with {both}"
    if n <= MIN_MODELS or between["pearson"] is None or theirs["n_models"] != n:
        return f"{text}; too few models for an interval"
    low, high = correlation_difference_interval(ours, theirs, between["pearson"])
    verdict = "no significant difference" if low <= 0 <= high else "significant"
    return f"{text}; difference {ours['pearson'] - theirs['pearson']:+.2f} ({low:+.2f} to {high:+.2f}): {verdict}"


def _with_limits(row: Mapping[str, Any]) -> str:
    limits = "" if row["pearson_low"] is None else f" ({row['pearson_low']:+.2f} to {row['pearson_high']:+.2f})"
    return f"{row['pearson']:+.2f}{limits}"


def correlation_difference_interval(one: Mapping[str, Any], two: Mapping[str, Any], between: float) -> tuple[float, float]:
    """Return the (low, high) interval of `one` minus `two`, correlations with one quantity.

    Guang Yong Zou, "Toward using confidence intervals to compare correlations", Psychological Methods, 2007. The level is that of the
    limits of `one` and `two`, and `between` the correlation of the two quantities that are correlated with the third.
    """
    r, s = one["pearson"], two["pearson"]
    spread = (1 - r**2) * (1 - s**2)
    joint = ((between - r * s / 2) * (1 - r**2 - s**2 - between**2) + between**3) / spread if spread else 1.0
    below, above = r - one["pearson_low"], one["pearson_high"] - r
    below_two, above_two = s - two["pearson_low"], two["pearson_high"] - s
    low = math.sqrt(max(0.0, below**2 + above_two**2 - 2 * joint * below * above_two))
    high = math.sqrt(max(0.0, above**2 + below_two**2 - 2 * joint * above * below_two))
    return r - s - low, r - s + high


def write_points(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    write_csv(path, FIELDS, points)
