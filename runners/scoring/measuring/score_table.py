"""The table of scores: its columns, and its rows with all that they are of in one label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry.sample import LABELLED_SCORES, SCORES
from qualm.runners.runtime.records import read_table
from qualm.runners.scoring.measuring.labels import PARTS, Labels


def read_labelled(path: Path) -> pa.Table:
    """Read LABELLED_SCORES, with each score's label as `metric`; else raise RecordError."""
    names = ["label" if name == "metric" else name for name in LABELLED_SCORES.names]
    return read_table(path, SCORES, names).rename_columns(LABELLED_SCORES.names).cast(LABELLED_SCORES)


def in_parts(labelled: pa.Table, params: Mapping[str, Any], judges: Mapping[str, str | None] | None = None) -> pa.Table:
    """Return scores with their labels split into parts.

    Args:
        labelled: as LABELLED_SCORES says.
        params: of the stage that scored.
        judges: data set -> the judge whose ratings are the correctness of its answers. Without it only judges that a metric names are told.

    Raises:
        ValueError: A score is undefined and has no reason.
    """
    silent = labelled.filter(pc.and_(pc.is_null(labelled["value"]), pc.is_null(labelled["why"])))
    if silent.num_rows:
        first = silent.slice(0, 1).to_pylist()[0]
        raise ValueError(f"{first['model']}, {first['dataset']}: {first['metric']} is undefined and has no reason; fill in `why`")
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
