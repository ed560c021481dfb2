"""Report of the report from a few rows, so that what a section says of them can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from qualm.registry.sample import (
    ABSTENTION_RULES,
    CALIBRATOR_COMPARISONS,
    COMPARISONS,
    CONFORMAL_THRESHOLDS,
    CORRELATIONS,
    ESTIMATOR_COMPARISONS,
    LABELLED_SCORES,
    RANKINGS,
    SAMPLES,
)
from qualm.runners.reporting.load import Report
from qualm.runners.results.results import OF_ANSWERS, VERDICTS
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stage import Stage

Rows = Sequence[Mapping[str, Any]]
ANSWERS = {**VERDICTS, **dict.fromkeys(OF_ANSWERS, pl.String)}


def frame(rows: Rows, schema: pa.Schema) -> pl.DataFrame:
    """Rows in a schema of the project's; what a row leaves out is null."""
    table = pa.table({f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in schema}, schema=schema)
    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


def ranked(results: Report, among: str, metric: str, names: list[str], alike: int, model: str | None = None) -> list[dict[str, Any]]:
    """Rows of RANKINGS of clean inputs, .50, .49, ...; of those behind the first so many are statistically tied from it."""
    place = {"dataset": results.datasets[0], "variant": "clean", "slice": "all", "metric": metric, "among": among, "model": model}
    base = dict.fromkeys(RANKINGS.names) | place | {"candidates": len(names), "n": 9, "leader": names[0], "low": 0.25, "high": 0.75}
    return [
        base
        | {"candidate": name, "value": 0.5 - 0.01 * i, "p_adjusted": 0.5 if i <= alike else 0.01}
        | {"may_be_best": i <= alike, "is_best": i == 0 and not alike}
        for i, name in enumerate(names)
    ]


def score(metric: str, value: float | None, model: str = "m", dataset: str = "d", **more: Any) -> dict[str, Any]:
    """A row of LABELLED_SCORES: clean, all questions, of ten."""
    row = {"variant": "clean", "slice": "all", "n": 10, "n_unscored": 0, **more}
    return {"model": model, "dataset": dataset, "metric": metric, "value": value, **row}


def sample(name: str, **more: Any) -> dict[str, Any]:
    usual = {"question": f"What is {name}?", "references": ["red"], "choices": [], "category": "", "answerable": True, "split": "test"}
    return {"sample_id": name, **usual, **more}


def made_results(
    scores: Rows = (),
    *,
    samples: Mapping[str, Rows] | None = None,
    answers: Rows = (),
    thresholds: Rows = (),
    plots: Mapping[str, pl.DataFrame] | None = None,
    comparisons: Rows = (),
    correlations: Rows = (),
    rules: Rows = (),
    rankings: Rows = (),
    calibrator_comparisons: Rows = (),
    inputs: Mapping[str, Any] | None = None,
    seed: int = 7,
    **params: Any,
) -> Report:
    """Keyword arguments that are no table go into the stage's parameters."""
    stage = Stage("small/report", "small", "report", "report", params, dict(inputs or {}), {}, seed, Settings())
    frames = {
        "comparisons": (comparisons, COMPARISONS),
        "rankings": (rankings, RANKINGS),
        "estimator_comparisons": ((), ESTIMATOR_COMPARISONS),
        "calibrator_comparisons": (calibrator_comparisons, CALIBRATOR_COMPARISONS),
        "thresholds": (thresholds, CONFORMAL_THRESHOLDS),
        "correlations": (correlations, CORRELATIONS),
        "abstention_rules": (rules, ABSTENTION_RULES),
    }
    return Report(
        stage,
        frame(scores, LABELLED_SCORES),
        {name: frame(rows, SAMPLES) for name, rows in (samples or {}).items()},
        pl.DataFrame([{name: row.get(name) for name in ANSWERS} for row in answers], schema=ANSWERS),
        dict(plots or {}),
        [],
        frame([], LABELLED_SCORES),
        **{name: frame(rows, schema) for name, (rows, schema) in frames.items()},
    )
