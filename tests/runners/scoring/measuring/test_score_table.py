"""Files of scores of every version: `scores_version_1.parquet` was written by the code of before columns were parted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qualm.registry.sample import LABELLED_SCORES, SCHEMA_VERSION, SCORES
from qualm.runners.runtime.records import RecordError, file_version, read_table, write_table
from qualm.runners.scoring.measuring.score_table import in_parts, read_labelled, read_scores

OLD = Path(__file__).with_name("scores_version_1.parquet")
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


def test_an_old_file_opens_with_its_labels_in_parts() -> None:
    assert file_version(OLD) == 1
    scores = read_scores(OLD, PARAMS)
    assert scores.schema.equals(SCORES)
    assert [tuple(row[name] for name in PARTS) for row in scores.to_pylist()] == EXPECTED
    assert [row["parameters"] for row in scores.to_pylist()][4:6] == ['{"bins": 5}', None]
    assert scores["label"].to_pylist() == pq.read_table(OLD)["metric"].to_pylist()


def test_written_again_every_value_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    new = tmp_path / "scores.parquet"
    write_table(new, read_scores(OLD, PARAMS), SCORES, {"stage": "t/score"})
    assert file_version(new) == 2
    assert read_labelled(new).equals(read_labelled(OLD)) and read_labelled(new).schema.equals(LABELLED_SCORES)
    old = pq.read_table(OLD)
    written = pq.read_table(new)
    for name in set(old.column_names) - {"metric"}:
        assert written[name].combine_chunks().equals(old[name].combine_chunks()), name
    assert read_scores(new, {}).equals(read_scores(OLD, PARAMS))


def test_the_judge_is_the_one_that_is_named_or_that_of_the_data_set() -> None:
    judges = {"choice": None, "open": "lave"}
    rows = [{"dataset": name, "metric": label} for label in ("accuracy", "rater", "coverage[ours/lac]") for name in ("choice", "open")]
    table = in_parts(pa.Table.from_pylist(rows, schema=LABELLED_SCORES), PARAMS, judges)
    assert table["judge"].to_pylist() == [None, "lave", "vqa", "vqa", None, None]
    assert in_parts(LABELLED_SCORES.empty_table(), PARAMS, judges).num_rows == 0


def test_a_file_that_another_tool_has_written_again_without_its_version(tmp_path: Path) -> None:
    bare = read_scores(OLD, PARAMS).replace_schema_metadata(None)
    pq.write_table(bare, tmp_path / "bare.parquet")
    assert read_scores(tmp_path / "bare.parquet", {}).equals(read_scores(OLD, PARAMS))
    assert read_labelled(tmp_path / "bare.parquet").equals(read_labelled(OLD))


def test_a_file_of_a_later_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    later = tmp_path / "later.parquet"
    pq.write_table(read_scores(OLD, PARAMS).replace_schema_metadata({SCHEMA_VERSION: b"3"}), later)
    message = "later.parquet: its columns are of version 3, this qualm reads up to version 2; upgrade qualm"
    for read in (lambda: read_scores(later, PARAMS), lambda: read_labelled(later), lambda: read_table(later, SCORES)):
        with pytest.raises(RecordError, match=message):
            read()


def test_no_file_and_no_table(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="found nothing"):
        read_scores(tmp_path / "none.parquet", PARAMS)
    (tmp_path / "cut.parquet").write_bytes(b"no table")
    with pytest.raises(RecordError, match="not a readable Parquet table"):
        read_labelled(tmp_path / "cut.parquet")
