"""The questions that a stage of inference will ask, as far as its data sets are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import PlannedStage

if TYPE_CHECKING:
    import pyarrow as pa


def questions(stage: PlannedStage, root: Path, columns: Sequence[str]) -> list[pa.Table] | None:
    """These columns of SAMPLES, a table for each data set, of the rows that models are asked; None where a data set is not built."""
    return _read(stage, root, columns, lambda rows, scored, params: [rows])


def questions_of_variants(stage: PlannedStage, root: Path, columns: Sequence[str]) -> list[pa.Table] | None:
    """The same, a table for each data set and variant: without their picture models are asked the scored rows alone."""
    return _read(stage, root, columns, lambda rows, scored, params: [scored if "picture" in v else rows for v in params["variants"]])


def _read(
    stage: PlannedStage, root: Path, columns: Sequence[str], of: Callable[[pa.Table, pa.Table, dict[str, Any]], list[pa.Table]]
) -> list[pa.Table] | None:
    """Of each data set some tables, made from its asked rows, those of them that are scored, and the stage's parameters."""
    folders = {name: root / folder / "samples.parquet" for name, folder in stage.inputs["datasets"].items()}
    if not all(path.is_file() for path in folders.values()):
        return None
    import pyarrow.parquet as pq

    from qualm.runners.data.splits import ASKED_BY, rule
    from qualm.runners.runtime.parameters import to_lists
    from qualm.runners.runtime.stage import StageError

    tables: list[pa.Table] = []
    params = to_lists(stage.params)
    for name, path in folders.items():
        table = pq.read_table(path, columns=[*dict.fromkeys([*ASKED_BY, *columns])])
        try:
            rows = table.filter((own := rule(params, name)).asked(name, table))
            tables += of(rows, rows.filter(own.scored(name, rows["split"])), params)
        except StageError:
            return None
    return tables
