"""What CertainlyUncertain says beside its scores, by hand on a few rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qualm.compiler.results.refusals import category_means, read_correlations, show_category_means, show_claims
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.sample import CORRELATIONS
from qualm.runners.runtime.records import write_table
from tests.compiler.results.test_show import row

CONSOLE = Console(width=120)
SLICES = [
    row("f1_idk", value, slice=f"category={part}")
    for part, value in (("epistemic", 0.9), ("epistemic/a", 0.25), ("epistemic/b", 0.75), ("aleatoric/c", 0.5), ("aleatoric/c*x", 0.1))
]


def test_means_are_over_the_finest_categories() -> None:
    (mean,) = category_means(iter(SLICES))
    assert (mean["value"], mean["n"], mean["low"]) == (0.5, 3, None)
    (undefined,) = category_means(iter([*SLICES, row("f1_idk", None, slice="category=epistemic/d")]))
    assert undefined["value"] != undefined["value"]


def test_means_stand_below_the_pooled_scores_of_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [row("f1_idk", 0.9), row("idk_rate", 0.5)]
    show_category_means([*SLICES, *shown, row("idk_rate", 0.5, slice="category=epistemic/a")], shown, CONSOLE)
    out = capsys.readouterr().out
    assert "d · mean of categories, unweighted, without interval (n: categories)" in out and "0.500" in out and "idk_rate" not in out
    plain = [row("f1_idk", None, slice="category=kind/a"), row("f1_idk", 0.0)]
    show_category_means(plain, plain[1:], CONSOLE)
    show_category_means(SLICES, [row("accuracy")], CONSOLE)
    assert capsys.readouterr().out == ""
    other = [row("f1_idk", None, "n", slice="category=kind/a"), row("f1_idk", 0.5, "n"), row("f1_idk@judge=rules", 0.5)]
    show_category_means([*SLICES, *other, row("f1_idk@judge=rules", 0.25, slice="category=kind/a")], [*shown, *other[1:]], CONSOLE)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["metric", "m", "n", "n"] in lines and ["f1_idk", "0.500", "undefined", "1–3"] in lines
    assert ["f1_idk@judge=rules", "0.250", "–", "1"] in lines


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
