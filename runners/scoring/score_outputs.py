"""Files that the stage `score` writes: tables of all cells, the metrics file, and the points of plots."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry import MACRO_DATASETS, sample
from qualm.runners.runtime.stage import Stage
from qualm.runners.scoring.cell_scores import Scoring
from qualm.runners.scoring.measuring.score_table import shown_values, split_labels

OutputTable = tuple[str, list[dict[str, Any]] | pa.Table, pa.Schema]
"""Name of an output, its rows, and their schema."""


def score_tables(found: Scoring, labelled: pa.Table) -> Iterator[OutputTable]:
    """Yield (name, rows, schema) of each table that the stage writes, scores first."""
    judged_by = set(found.judges.values())
    judges = {**found.judges, MACRO_DATASETS: judged_by.pop() if len(judged_by) == 1 else None}
    yield "scores", split_labels(labelled, found.stage.params, judges), sample.SCORES
    if "rankings" in found.stage.outputs:
        rankings, estimator_comparisons = found.rankings.tables()
        yield "rankings", rankings, sample.RANKINGS
        yield "estimator_comparisons", estimator_comparisons, sample.ESTIMATOR_COMPARISONS
    if "recalibrated" in found.stage.outputs:
        yield "recalibrated", pa.concat_tables([sample.RECALIBRATED.empty_table(), *found.recalibrated]), sample.RECALIBRATED
        yield "calibrator_comparisons", found.calibrators.rows(), sample.CALIBRATOR_COMPARISONS
    if found.compared:
        yield "comparisons", found.comparisons, sample.COMPARISONS
    if "effects" in found.stage.outputs:
        yield "effects", found.effects, sample.EFFECTS


def labelled_scores(found: Scoring) -> pa.Table:
    """Return LABELLED_SCORES of all cells, absent metrics and averages over datasets."""
    names = [samples.name for samples in found.datasets]
    others = (found.absent.rows(), list(found.over_datasets.rows(names)))
    return pa.concat_tables([found.labelled, *(pa.Table.from_pylist(rows, schema=sample.LABELLED_SCORES) for rows in others)])


def as_score_rows(found: Scoring, rows: list[dict[str, Any]], schema: pa.Schema) -> tuple[list[dict[str, Any]] | pa.Table, pa.Schema]:
    """Return (rows, schema): LABELLED_SCORES become SCORES, other tables are unchanged."""
    if schema is not sample.LABELLED_SCORES:
        return rows, schema
    return split_labels(pa.Table.from_pylist(rows, schema=schema), found.stage.params, found.judges), sample.SCORES


def publish_metrics(stage: Stage, labelled: pa.Table) -> None:
    """Write the values of LABELLED_SCORES that `dvc metrics show` prints, and publish them."""
    file = stage.scratch / "metrics.json"
    file.write_text(json.dumps(shown_values(labelled), indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    stage.publish(file, stage.outputs["metrics"])


def publish_plot(stage: Stage, name: str, write: Callable[[Path], None]) -> None:
    """Write the points of one plot by `write`, and publish them."""
    file = stage.scratch / f"{name}.csv"
    write(file)
    stage.publish(file, stage.outputs[name])
