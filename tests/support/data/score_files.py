"""Files of scores as the score stage writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from qualm.registry.sample import LABELLED_SCORES, SCORES
from qualm.runners.results.tables import labelled, scan
from qualm.runners.runtime.records import write_table
from qualm.runners.scoring.measuring.score_table import split_labels


def write_scores(
    path: Path,
    rows: Sequence[Mapping[str, Any]] | pa.Table,
    provenance: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> None:
    """Write rows of LABELLED_SCORES, which may lack columns, as a table of SCORES; `params` are those of the score stage."""
    rows = (
        rows if isinstance(rows, pa.Table) else [{"why": "not recorded" if row.get("value") is None else None} | dict(row) for row in rows]
    )
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=LABELLED_SCORES)
    write_table(path, split_labels(table, {"metrics": [], **(params or {})}), SCORES, provenance)


def read_labelled(path: Path) -> pa.Table:
    """Return a table of SCORES as LABELLED_SCORES."""
    return labelled(scan(path, SCORES)).collect().to_arrow().cast(LABELLED_SCORES)
