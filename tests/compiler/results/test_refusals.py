"""Whether CertainlyUncertain's metric goes with calibration, by hand on a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qualm.compiler.results.refusals import read_correlations, show_claims
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.sample import CORRELATIONS
from qualm.runners.runtime.records import write_table
from tests.compiler.results.test_show import row

CONSOLE = Console(width=120)


def correlation(**more: Any) -> dict[str, Any]:
    base = {f.name: None for f in CORRELATIONS} | {"dataset": "d", "slice": "all", "metric": "ece", "n_models": 2}
    return base | more


def test_the_claim_is_shown_of_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weighted, plain = "confidence_weighted_accuracy", "lave_idk_accuracy"
    rows = [correlation(studied=weighted), correlation(studied=plain), correlation(metric=plain, studied=weighted)]
    write_table(tmp_path / "c.parquet", rows, CORRELATIONS)
    show_claims(read_correlations(tmp_path / "c.parquet"), [row("f1_idk")], CONSOLE)
    assert capsys.readouterr().out.strip() == "d · ece: too few models (2; a correlation needs 3)"
    show_claims(rows, [row("f1_idk", dataset="e")], CONSOLE)
    assert capsys.readouterr().out == ""


def test_no_table_and_one_that_is_none(tmp_path: Path) -> None:
    assert read_correlations(tmp_path / "c.parquet") == []
    (tmp_path / "c.parquet").write_text("no table")
    with pytest.raises(ProjectError):
        read_correlations(tmp_path / "c.parquet")
