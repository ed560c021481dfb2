"""Runs for experiment trackers: parameters, scores with interval ends, and training curve of each model."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qualm.registry import CLEAN, MACRO
from qualm.registry.plugins.extras import install_line
from qualm.registry.sample import SCORES
from qualm.runners.plugins.exports._parts import ExportError
from qualm.runners.results.tables import labelled, scan

if TYPE_CHECKING:
    from qualm.runners.plugins.exports import ExportContext

ALL = "all"
STEP = "step"


@dataclass
class TrackedRun:
    """One model's scores, parameters and training curves for an experiment tracker."""

    name: str
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """`DATASET/METRIC` or `DATASET.MACRO_AVERAGE/METRIC`, each with `.low` and `.high` for intervals."""
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """`training/loss`... -> steps and values."""


def tracked_runs(context: ExportContext) -> list[TrackedRun]:
    """Return a TrackedRun per model with scores or training; ExportError if not scored yet.

    A spec without metrics has the models that it trained, with a curve and no score.

    Raises:
        ExportError: nothing was scored yet, or nothing was trained and there is nothing to score.
    """
    if "scores" not in context.results and (context.scored or not context.training):
        raise context.without_scores()
    runs: dict[str, TrackedRun] = {}
    for row in labelled(scan(context.results["scores"], SCORES)).collect().to_dicts() if context.scored else ():
        if not (row["slice"] == ALL or row["slice"].startswith(MACRO)) or not context.selects(row):
            continue
        run = runs.setdefault(row["model"], TrackedRun(row["model"], _params(context, row["model"])))
        if row["value"] is None:
            context.lose("undefined scores")
            continue
        where = row["dataset"] if row["variant"] == CLEAN else f"{row['dataset']}@{row['variant']}"
        where += "" if row["slice"] == ALL else f".{row['slice']}"
        name = f"{metric_key(where)}/{metric_key(row['metric'])}"
        if name in run.metrics:
            raise ExportError(f"two scores of '{row['model']}' would both be called '{name}'; choose datasets with -d")
        run.metrics[name] = row["value"]
        run.metrics |= {f"{name}.{end}": row[end] for end in ("low", "high") if row[end] is not None}
        context.counts["scores"] += 1
    for model, path in context.training.items():
        if model in (context.models_asked or [model]):
            run = runs.setdefault(model, TrackedRun(model, _params(context, model)))
            run.curves = {f"training/{metric_key(name)}": points for name, points in _curves(path).items()}
    return list(runs.values())


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Raise an ExportError naming the missing `extra` if the body raises ImportError."""
    try:
        yield
    except ImportError as error:
        raise ExportError(f"{error.name or extra} is not installed: `{install_line(extra)}`") from None


def metric_key(label: str) -> str:
    """Return a label in the characters that all trackers accept.

    >>> metric_key("auroc[ours/p_true]"), metric_key("ece@bins=15")
    ('auroc/ours/p_true', 'ece.bins-15')
    """
    plain = label.replace("[", "/").replace("]", "").replace("@", ".").replace("=", "-")
    return re.sub(r"[^\w./-]+", "_", plain).strip("/")


def _params(context: ExportContext, model: str) -> dict[str, str]:
    about = context.models.get(model, {})
    args = {f"model.{name}": value for name, value in about.get("args", {}).items() if value is not None}
    decoding = {f"decoding.{name}": value for name, value in context.decoding.items()}
    facts = {"spec": context.spec, "revision": context.revision, "model": model, "plugin": about.get("plugin"), **args, **decoding}
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def _curves(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return column -> (step, value) points of a training log, without empty cells."""
    with path.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = [name for name in (rows[0] if rows else {}) if name != STEP]
    return {name: list(_points(rows, name)) for name in names}


def _points(rows: list[dict[str, str]], name: str) -> Iterator[tuple[int, float]]:
    for row in rows:
        if row[name]:
            yield int(row[STEP]), float(row[name])
