"""The studies: drawn where the data allow, else with the reason; ranks and their correlation checked by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from qualm.registry.sample import COMPARISONS
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections import studies
from tests.runners.reporting.held import held, rows_of_drawings
from tests.runners.reporting.made_results import frame

SHARES = ("ours", "share@fraction=0.1", "share@fraction=0.3", "share@fraction=0.5")
MODELS = ("a", "b", "c", "d")


def test_calibration_share_has_a_panel_per_metric_and_score(fabricate: Callable[..., Any]) -> None:
    figures = studies.calibration_share(read_report(fabricate(settings=SHARES).stage()))
    assert len(figures) == 1  # the open-ended dataset has no sets
    assert [p.title for p in figures[0].panels] == ["coverage (LAC)", "coverage (APS)", "set size (LAC)", "set size (APS)"]


@pytest.mark.parametrize(("settings", "drawn"), [(SHARES[:3], True), (SHARES[:2], False), ((*SHARES[:2], "share@fraction=0.10"), False)])
def test_two_shares_are_a_curve(fabricate: Callable[..., Any], settings: tuple[str, ...], drawn: bool) -> None:
    figures = studies.calibration_share(read_report(fabricate(settings=settings, datasets=("choice",), n=20).stage()))
    assert [bool(figure.panels) for figure in figures] == [True] * drawn


def test_ranks_and_their_correlation(fabricate: Callable[..., Any]) -> None:
    fabric = fabricate(models=MODELS, datasets=("choice",))
    new = {"a": (0.9, 1.0), "b": (0.8, 3.0), "c": (0.7, 2.0), "d": (0.6, 4.0)}
    for row in fabric.scores:
        if (row["slice"], row["variant"]) == ("all", "clean") and row["metric"] in ("accuracy[ours]", "set_size[ours/mean]"):
            row["value"] = new[row["model"]][row["metric"].startswith("set_size")]
    results = read_report(fabric.stage())
    if results.labels["set_size[ours/mean]"].higher_is_better is None:
        pytest.skip("the set_size metric is not in this checkout")
    (figure,) = studies.ranks(results)
    assert "Spearman 0.80, Kendall τ-b 0.67" in figure.caption
    assert figure.table is not None
    assert [r[0] for r in figure.table[1]] == ["a", "b", "c", "d"]
    assert [r[4] for r in figure.table[1]] == ["1", "3", "2", "4"]


@pytest.mark.parametrize(("models", "datasets", "drawn"), [(3, ("choice",), 1), (2, ("choice",), 0), (3, ("choice", "choice2"), 3)])
def test_three_models_are_ranked_and_over_two_data_sets_by_their_means(
    fabricate: Callable[..., Any], models: int, datasets: tuple[str, ...], drawn: int
) -> None:
    figures = studies.ranks(read_report(fabricate(models=MODELS[:models], datasets=datasets, n=20).stage()))
    assert sum(bool(figure.table) for figure in figures) == len(figures) == drawn


def test_scale_and_chat_need_facts_about_the_models(fabricate: Callable[..., Any]) -> None:
    about = {
        "a": {"family": "F", "billions": 7, "chat": True},
        "b": {"family": "F", "billions": 13.0, "chat": True, "base": "c"},
        "c": {"family": "G", "billions": 13, "chat": False},
        "gone": {"family": "G", "billions": 70},
    }
    results = read_report(fabricate(models=MODELS).stage(about=about))
    assert [len(f.panels) for f in studies.scale(results)] == [2, 1]
    assert [len(f.panels) for f in studies.chat_tuning(results)] == [2, 1]


def test_a_study_that_the_results_do_not_allow_is_left_out(fabricate: Callable[..., Any]) -> None:
    assert studies.studies(read_report(fabricate().stage())) == []


def test_a_change_by_chat_tuning_is_coloured_only_where_the_test_tells_it(fabricate: Callable[..., Any]) -> None:
    results = read_report(fabricate(models=MODELS).stage())
    a, b = results.models[:2]
    label = next(label for text, label in results.labels.items() if text.startswith("accuracy"))
    test = {"dataset": results.datasets[0], "slice": "all", "metric": label.text, "difference": 0.2, "higher_is_better": True}
    for p, expected in ((0.01, "better"), (0.2, "open"), (None, "open")):
        row = dict.fromkeys(COMPARISONS.names) | test | {"a": a, "b": b, "p_adjusted": p, "n": 9}
        made = pl.from_arrow(pa.Table.from_pylist([row], COMPARISONS))
        assert isinstance(made, pl.DataFrame)
        results.comparisons = made
        assert studies._change(results, results.datasets[0], a, b, label) == expected
    assert studies._change(results, results.datasets[0], a, "gone", label) == "open"


def test_all_that_is_shown(fabricate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    about = {
        "a": {"family": "F", "billions": 7, "chat": True},
        "b": {"family": "F", "billions": 13.0, "base": "c"},
        "c": {"family": "G", "billions": 13, "base": "a", "chat": False},
        "d": {"family": "F", "billions": 1.5, "base": "a"},
        "e": {"family": "G", "billions": 2},
    }
    rows_of_drawings(monkeypatch)
    fabric = fabricate(models=(*MODELS, "e"), datasets=("choice", "open", "choice2"), settings=SHARES)
    for row in fabric.scores:
        place = "abcde".index(row["model"])
        if row["metric"] in ("accuracy[ours]", "accuracy") and row["value"] is not None:
            row["value"] = (0.5, 0.75, 0.625, 0.25, 0.5)[place]
        elif row["metric"] == "set_size[ours/mean]":
            row["value"] = (4.0, 2.0, 2.0, 3.0, None)[place] if row["dataset"] == "choice" else (1.0, 5.0, 3.0, 2.0, 2.5)[place]
        elif row["metric"] == "coverage[share@fraction=0.3/lac]" and place == 1:
            row |= {"low": None, "high": None}
        elif row["metric"] == "set_size[share@fraction=0.1/aps]" and place > 2:
            row["value"] = None if place == 3 else float("nan")
    results = read_report(fabric.stage(about=about))
    tests = {"dataset": "choice", "slice": "all", "metric": "accuracy[ours]", "higher_is_better": True, "p_adjusted": 0.01, "n": 9}
    results.comparisons = frame([
        tests | {"a": "c", "b": "b", "difference": 0.2}, tests | {"a": "d", "b": "a", "difference": 0.2},
        tests | {"a": "d", "b": "a", "difference": -0.2, "slice": "category=attribute"},
    ], COMPARISONS)  # fmt: skip
    held("studies", studies.studies(results), tmp_path)
