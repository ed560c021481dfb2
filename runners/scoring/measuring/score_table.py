"""Build and read the table of scores."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qualm.registry import ALL, MACRO
from qualm.registry.sample import CLEAN, SCORES
from qualm.runners.runtime.precision import round_result
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.labels import PARTS, Labels
from qualm.runners.scoring.measuring.measured import Measured, Slice


def split_labels(labelled: pa.Table, params: Mapping[str, Any], judges: Mapping[str, str | None] | None = None) -> pa.Table:
    """Return the SCORES table: labelled scores with their labels split into columns.

    `judges` is dataset -> the judge whose ratings are the correctness of its answers; without it only judges that a metric names are told.

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


def score_rows(
    cell: Cell, part: Slice, values: Sequence[tuple[str, Measured]], columns: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield LABELLED_SCORES rows of a cell on one slice, from `intervals_and_columns`."""
    same: dict[str, Any] = {**cell.place, "slice": part.label}
    same |= {"collapsed": cell.collapsed or None, "disputed": cell.disputed or None, "caution": cell.caution or None}
    for (label, _), of_value in zip(values, columns, strict=True):
        yield same | {"metric": label} | of_value


def count_undefined(values: Sequence[tuple[str, Measured]]) -> Counter[str]:
    """Return counts of scores, undefined scores by reason, and resamples without a value."""
    counts: Counter[str] = Counter()
    for _, measured in values:
        undefined = math.isnan(measured.value)
        counts.update({"scores": 1, "undefined": undefined, "resamples undefined": measured.undefined})
        if undefined:
            condition = measured.why.partition(";")[0].removeprefix("undefined ")
            counts[f"undefined ({condition})"] += 1
    return counts


def shown_values(labelled: pa.Table) -> dict[str, dict[str, dict[str, float]]]:
    """Return {model: {dataset, or "DATASET SLICE" of a macro average: {metric: clean value}}}."""
    nested: dict[str, dict[str, dict[str, float]]] = {}
    is_shown = pc.or_(pc.equal(labelled["slice"], ALL), pc.starts_with(labelled["slice"], MACRO))
    shown = labelled.filter(pc.and_(pc.equal(labelled["variant"], CLEAN), is_shown))
    for row in shown.select(["model", "dataset", "slice", "metric", "value"]).to_pylist():
        if row["value"] is not None:
            place = row["dataset"] if row["slice"] == ALL else f"{row['dataset']} {row['slice']}"
            nested.setdefault(row["model"], {}).setdefault(place, {})[row["metric"]] = round_result(row["value"])
    return nested
