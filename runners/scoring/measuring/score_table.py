"""The table of scores: its columns, and files of every version that it has had.

Version 1 held metric, parameters, estimator, conformal setting... in one text, `metric`; since version 2 they have columns of their own,
and that text is `label`. Whoever opens such a file does so by this module, so that results of an older commit open as those of today do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from qualm.registry.sample import LABELLED_SCORES, SCHEMA_VERSION, SCORES
from qualm.runners.runtime.records import file_version, read_table
from qualm.runners.scoring.measuring.labels import PARTS, Labels

CURRENT = int(SCORES.metadata[SCHEMA_VERSION])
TABLES = ("scores", "modality_scores")
"""Outputs of the score stage that are such tables."""


def read_scores(path: Path, params: Mapping[str, Any]) -> pa.Table:
    """Scores with a column for each part of a metric's label, as SCORES says.

    Args:
        path: of a file of any version.
        params: of the stage that scored, which tell what labels of version 1 mean.

    Raises:
        RecordError: there is no such table, or it is of a later version of qualm.
    """
    if _is_packed(path):
        return in_parts(read_table(path, LABELLED_SCORES), params)
    return read_table(path, SCORES)


def read_labelled(path: Path) -> pa.Table:
    """Scores with the label of each as `metric`, as LABELLED_SCORES says, of a file of any version.

    Raises:
        RecordError: there is no such table, or it is of a later version of qualm.
    """
    if _is_packed(path):
        return read_table(path, LABELLED_SCORES)
    names = ["label" if name == "metric" else name for name in LABELLED_SCORES.names]
    return read_table(path, SCORES, names).rename_columns(LABELLED_SCORES.names).cast(LABELLED_SCORES)


def _is_packed(path: Path) -> bool:
    """Whether a file is of version 1; one of today's that was written again by another tool may have lost its version."""
    return file_version(path) < CURRENT and "label" not in pq.read_schema(path).names


def in_parts(labelled: pa.Table, params: Mapping[str, Any], judges: Mapping[str, str | None] | None = None) -> pa.Table:
    """Scores, their labels in parts.

    Args:
        labelled: as LABELLED_SCORES says.
        params: of the stage that scored.
        judges: data set -> the judge whose ratings are the correctness of its answers. Without it only judges that a metric names are told.
    """
    of, codes, pairs = Labels(params), np.zeros(labelled.num_rows, dtype=np.int64), list[tuple[str, str]]()
    if labelled.num_rows:
        datasets, labels = (labelled[name].combine_chunks().dictionary_encode() for name in ("dataset", "metric"))
        both = datasets.indices.to_numpy() * len(labels.dictionary) + labels.indices.to_numpy()
        distinct, codes = np.unique(both, return_inverse=True)
        places = (divmod(int(code), len(labels.dictionary)) for code in distinct)
        pairs = [(datasets.dictionary[d].as_py(), labels.dictionary[label].as_py()) for d, label in places]
    rows = [of.parts(label, (judges or {}).get(dataset)) for dataset, label in pairs]
    parts = pa.Table.from_pylist(rows, schema=pa.schema([SCORES.field(name) for name in PARTS]))
    taken = {name: pc.take(parts[name], pa.array(codes)) for name in PARTS} | {"label": labelled["metric"]}
    columns = [taken[name] if name in taken else labelled[name] for name in SCORES.names]
    return pa.table(columns, schema=SCORES)
