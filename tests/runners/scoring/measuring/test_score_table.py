"""The table of scores: labels parted into columns, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qualm.registry.sample import LABELLED_SCORES, SCORES
from qualm.runners.runtime.records import RecordError, read_table, write_table
from qualm.runners.scoring.measuring.score_table import split_labels
from tests.support.data.score_files import read_labelled

PARAMS: dict[str, Any] = {
    "metrics": [
        {"label": "accuracy", "plugin": "accuracy", "args": {"right_from": 0.5}},
        {"label": "coverage", "plugin": "coverage", "args": {}},
        {"label": "auroc@right_from=1", "plugin": "auroc", "args": {"right_from": 1.0}},
        {"label": "ece@bins=5", "plugin": "ece", "args": {"bins": 5}},
        {"label": "rater", "plugin": "vqa_accuracy", "args": {}},
    ],
    "conformal": [{"label": "ours"}],
    "calibrators": [{"label": "held_out"}],
}
PARTS = ("metric", "estimator", "conformal", "nonconformity", "calibrator", "higher_is_better")
EXPECTED = [
    ("accuracy", None, None, None, None, True),
    ("coverage", None, "ours", "lac", None, None),
    ("coverage", None, "ours", "mean", None, None),
    ("auroc", "perplexity", "ours", None, None, True),
    ("ece", "perplexity", None, None, "held_out/platt", False),
    ("retired", None, None, None, None, None),
    ("rater", "p_true", None, None, None, True),
]


def test_labels_are_parted_into_columns_and_read_again_as_labels(tmp_path: Path) -> None:
    labels = [
        "accuracy", "coverage[ours/lac]", "coverage[ours/mean]", "auroc@right_from=1[ours/perplexity]",
        "ece@bins=5[held_out/platt/perplexity]", "retired@x=1", "rater[p_true]",
    ]  # fmt: skip
    labelled = pa.Table.from_pylist(
        [{"model": "m", "dataset": "d", "metric": label, "value": 0.5} for label in labels], schema=LABELLED_SCORES
    )
    write_table(tmp_path / "scores.parquet", split_labels(labelled, PARAMS), SCORES, {"stage": "t/score"})
    scores = read_table(tmp_path / "scores.parquet", SCORES).to_pylist()
    assert [tuple(row[name] for name in PARTS) for row in scores] == EXPECTED
    assert [row["parameters"] for row in scores][4:6] == ['{"bins": 5}', None]
    assert read_labelled(tmp_path / "scores.parquet").equals(labelled)


def test_the_judge_is_the_one_that_is_named_or_that_of_the_data_set() -> None:
    judges = {"choice": None, "open": "lave"}
    rows = [
        {"dataset": name, "metric": label, "value": 0.5}
        for label in ("accuracy", "rater", "coverage[ours/lac]")
        for name in ("choice", "open")
    ]
    table = split_labels(pa.Table.from_pylist(rows, schema=LABELLED_SCORES), PARAMS, judges)
    assert table["judge"].to_pylist() == [None, "lave", "vqa", "vqa", None, None]
    assert split_labels(LABELLED_SCORES.empty_table(), PARAMS, judges).num_rows == 0


def test_an_undefined_score_without_a_reason_is_refused() -> None:
    rows = [{"model": "m", "dataset": "d", "metric": "accuracy", "why": why} for why in ("no rows", None)]
    with pytest.raises(ValueError, match="m, d: accuracy is undefined and has no reason"):
        split_labels(pa.Table.from_pylist(rows, schema=LABELLED_SCORES), PARAMS)


def test_no_file_and_no_table(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="found nothing"):
        read_labelled(tmp_path / "none.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"no table")
    with pytest.raises(RecordError, match="not a readable Parquet table"):
        read_labelled(tmp_path / "cut.parquet")
