"""Show whether CertainlyUncertain's metric goes with calibration more closely than accuracy does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from qualm.compiler.results.scores import Row
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.console import Console


def read_correlations(path: Path) -> list[Row]:
    """Read correlations over models, empty without the file; ProjectError for another table."""
    from qualm.registry.sample import CORRELATIONS
    from qualm.runners.runtime.records import RecordError, read_table

    if not path.is_file():
        return []
    try:
        rows: list[Row] = read_table(path, CORRELATIONS).to_pylist()
    except RecordError as error:
        raise ProjectError(str(error)) from error
    return rows


def show_claims(correlations: Sequence[Row], printed_rows: Sequence[Row], console: Console) -> None:
    """Print whether confidence-weighted accuracy goes with calibration more closely than accuracy does."""
    from qualm.runners.studies.confidence_weighted_accuracy import claims

    datasets = {r["dataset"] for r in printed_rows}
    for dataset, text in claims(correlations):
        if dataset in datasets:
            console.print(Text(f"{dataset} · {text}", style="dim"))
