"""The figure beside the findings: the rows that the sentences rank, in their order and with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from qualm.registry.sample import RANKINGS
from qualm.runners.reporting import charts
from qualm.runners.reporting.findings_figure import MAX_ROWS, findings_figure
from qualm.runners.reporting.load import read_report
from qualm.runners.runtime.colours import ACCENT, MUTED, SERIES
from qualm.runners.stages.report import render
from tests.runners.reporting.made_results import frame, ranked


@pytest.fixture
def results(fabricate: Callable[..., Any]) -> Any:
    return read_report(fabricate(settings=("ours",), datasets=("choice",)).stage())


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was given to the drawing, panel by panel."""
    given: list[Any] = []
    monkeypatch.setattr(charts, "ranked_dots", lambda rows, reference: given.append((rows, reference)) or "")
    return given


def accuracy(results: Any) -> str:
    return next(text for text in results.labels if text.startswith("accuracy"))


def test_models_without_ranking_have_their_own_intervals(results: Any, drawn: list[Any]) -> None:
    """A dataset of fewer than 20 groups has no ranking; the first screen has a figure all the same."""
    assert results.rankings.is_empty()
    figure = findings_figure(results)
    assert figure is not None and len(figure.panels) == len(drawn) == len(results.datasets) > 0
    for dataset, (rows, reference), panel in zip(results.datasets, drawn, figure.panels, strict=True):
        label = results.quality(dataset)
        cells = [results.cells[model, dataset, label.text] for model in results.models]
        assert [(row["row"], row["value"], row["low"], row["high"]) for row in rows] == [
            (cell["model"], cell["value"], cell["low"], cell["high"]) for cell in sorted(cells, key=lambda cell: -cell["value"])
        ]
        assert reference is None and panel.note == "2 models, not ranked"
    assert figure.legend == [(SERIES[1], "not ranked: its own interval")] and "simultaneous" not in figure.caption


def test_metrics_of_perturbed_inputs_alone_have_no_figure_and_a_report(fabricate: Callable[..., Any]) -> None:
    """As of a spec whose only metric is `unchanged_input_rate`."""
    results = read_report(fabricate().stage())
    results.scores = results.scores.filter(pl.col("variant") != "clean")
    assert not results.scores.is_empty() and findings_figure(results) is None
    assert render(results).startswith(b"<!doctype html>")


def test_one_row_is_no_ranking(results: Any, drawn: list[Any]) -> None:
    alone = ranked(results, "models", accuracy(results), results.models[:1], 0)
    alone += ranked(results, "estimators", "auroc", ["luq"], 0, results.models[0])
    results.rankings = frame(alone, RANKINGS)
    figure = findings_figure(results)
    assert figure is not None and figure.title == "Models, the best first" and len(drawn) == 1


def test_one_model_is_drawn_where_nothing_else_is(fabricate: Callable[..., Any]) -> None:
    figure = findings_figure(read_report(fabricate(models=("alone",)).stage()))
    assert figure is not None and [panel.note for panel in figure.panels] == ["1 model, not ranked"] * 2


def test_no_value_no_figure(results: Any) -> None:
    results.scores = results.scores.with_columns(value=pl.lit(None, pl.Float64))
    assert findings_figure(results) is None


def test_models_stand_in_order_with_the_intervals_that_allow_for_the_choice(results: Any, drawn: list[Any]) -> None:
    names = [*results.models[:2], f"{results.models[0]}+swapped_picture"]
    results.rankings = frame(ranked(results, "models", accuracy(results), names, 1), RANKINGS)
    figure = findings_figure(results)
    assert figure is not None
    ((rows, reference),) = drawn
    assert [(row["row"], row["value"], row["low"], row["high"]) for row in rows] == [
        (name, 0.5 - 0.01 * i, 0.25, 0.75) for i, name in enumerate(names)
    ]
    assert [row["colour"] for row in rows] == [ACCENT, ACCENT, MUTED] and reference is None
    assert [row["blind"] for row in rows] == [False, False, True] and "Ring: a baseline without the image." in figure.caption
    assert figure.title == "Models, the best first" and "Dashed" not in figure.caption
    assert [colour for colour, _ in figure.legend] == [ACCENT, MUTED]
    assert figure.panels[0].title == f"{results.datasets[0]} · accuracy ↑" and figure.panels[0].note == "3 models"


def test_what_could_not_be_compared_stands_where_its_value_belongs(results: Any, drawn: list[Any]) -> None:
    """It may be better than the best of those that could be."""
    a, b = results.models[:2]
    results.models.append("third")
    label = accuracy(results)
    row = results.scores.filter((pl.col("model") == a) & (pl.col("metric") == label) & (pl.col("variant") == "clean"))
    results.scores = pl.concat([results.scores, row.with_columns(pl.lit("third").alias("model"), pl.lit(1.0).alias("value"))])
    results.rankings = frame(ranked(results, "models", label, [a, b], 0), RANKINGS)
    vars(results).pop("cells"), vars(results).pop("overall")
    figure = findings_figure(results)
    assert figure is not None
    ((rows, _),) = drawn
    assert [(row["row"], row["low"], row["colour"]) for row in rows] == [("third", None, SERIES[1]), (a, 0.25, ACCENT), (b, 0.25, MUTED)]
    assert figure.legend[-1] == (SERIES[1], "not in the ranking")


@pytest.mark.parametrize("further", [0, 4])
def test_estimators_stand_beside_chance_and_the_best_of_many_are_shown(results: Any, drawn: list[Any], further: int) -> None:
    names = [f"luq@size={i}" for i in range(MAX_ROWS - _others(results) + further)]
    results.rankings = frame(ranked(results, "estimators", "auroc", names, 3, results.models[0]), RANKINGS)
    figure = findings_figure(results)
    assert figure is not None
    (rows, reference) = drawn[-1]
    assert reference == 0.5 and len(rows) == MAX_ROWS
    compared = [row["row"] for row in rows if row["low"] is not None]
    assert compared == [f"LUQ@size={i}" for i in range(MAX_ROWS - _others(results))], "behind those of which a better value is known"
    assert figure.title == "Models and estimators, the best first" and "Dashed: chance." in figure.caption
    shown = f"The best {MAX_ROWS} of up to {MAX_ROWS + further} rows are shown; the leaderboard has all."
    assert (shown in figure.caption) == ("are shown" in figure.caption) == (further > 0)
    assert figure.panels[-1].note == f"{len(names)} estimators of {results.models[0]}"


def test_estimators_that_rank_uncertain_questions_have_a_panel_of_their_own(results: Any, drawn: list[Any]) -> None:
    rows = ranked(results, "models", accuracy(results), results.models[:2], 0)
    for metric, n in (("auroc", MAX_ROWS + 1), ("auroc_uncertain", 2 * MAX_ROWS)):
        rows += ranked(results, "estimators", metric, [f"luq@size={i}" for i in range(n)], 1, results.models[0])
    results.rankings = frame(rows, RANKINGS)
    figure = findings_figure(results)
    assert figure is not None and figure.title == "Models and estimators, the best first" and figure.broad
    assert [panel.title.partition(" · ")[2] for panel in figure.panels] == ["accuracy ↑", "AUROC ↑", "AUROC uncertain ↑"]
    assert [reference for _, reference in drawn] == [None, 0.5, 0.5] and f"up to {2 * MAX_ROWS} rows are shown" in figure.caption


def _others(results: Any) -> int:
    """Estimators that have a value and were not ranked."""
    dataset, model = results.datasets[0], results.models[0]
    aurocs = [a for a in results.main_labels(dataset) if a.text == f"auroc[{a.estimator}]"]
    return sum(results.value(model, dataset, a.text) is not None for a in aurocs)
