"""Read the questions that an inference stage will ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.plan.plan import PlannedStage

if TYPE_CHECKING:
    import pyarrow as pa


def questions(stage: PlannedStage, root: Path, columns: Sequence[str]) -> list[pa.Table] | None:
    """Return per dataset a table of these columns of the questions asked; None if unbuilt."""
    return _read(stage, root, columns, lambda rows, scored, params: [rows])


def questions_of_variants(stage: PlannedStage, root: Path, columns: Sequence[str]) -> list[pa.Table] | None:
    """Return per dataset and variant a table of these columns; None if unbuilt.

    Variants without the image are asked only the scored questions. None if a dataset is not built.
    """
    return _read(stage, root, columns, lambda rows, scored, params: [scored if "picture" in v else rows for v in params["variants"]])


def _read(
    stage: PlannedStage, root: Path, columns: Sequence[str], select: Callable[[pa.Table, pa.Table, dict[str, Any]], list[pa.Table]]
) -> list[pa.Table] | None:
    """Return all tables that `select(asked, scored, params)` gives; None if data are unbuilt.

    It is called for each dataset; None if a dataset is not built.
    """
    folders = {name: root / folder / "samples.parquet" for name, folder in stage.inputs["datasets"].items()}
    if not all(path.is_file() for path in folders.values()):
        return None
    import pyarrow.parquet as pq

    from qualm.registry.parameters import to_lists
    from qualm.runners.data.splits import ASKED_BY, split_rule
    from qualm.runners.runtime.stage import StageError

    tables: list[pa.Table] = []
    params = to_lists(stage.params)
    for name, path in folders.items():
        table = pq.read_table(path, columns=[*dict.fromkeys([*ASKED_BY, *columns])])
        try:
            rule = split_rule(params, name)
            rows = table.filter(rule.is_asked(name, table))
            tables += select(rows, rows.filter(rule.scored(name, rows["split"])), params)
        except StageError:
            return None
    return tables
