"""Curves against strength, and coverage on inputs that nothing was calibrated on: which rows are drawn, and what is counted."""

import math

import polars as pl
import pytest

from qualm.runners.reporting.sections import perturbed_shifts as shifts
from qualm.runners.reporting.sections.perturbed_shifts import UNCERTAINTY, coverage, sweeps
from qualm.runners.results.perturbation import REFLECTION
from tests.runners.reporting.made_results import made_results, score

COLUMNS = {
    "model": pl.String, "dataset": pl.String, "perturbation": pl.String, "parameter": pl.String, "strength": pl.Float64,
    "metric": pl.String, "estimator": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64, "clean": pl.Float64,
}  # fmt: skip


@pytest.fixture
def drawn(monkeypatch):
    """What is handed to the drawings: (rows, series, axis titles or rule)."""
    calls = []
    monkeypatch.setattr(shifts.charts, "lines", lambda rows, names, x, y: calls.append((rows, names, x, y)) or "<svg/>")
    monkeypatch.setattr(
        shifts.charts, "dots", lambda rows, order, models, goal, beside: calls.append((rows, order, models, goal)) or "<svg/>"
    )
    return calls


def point(strength, value, metric="accuracy", estimator=None, model="m", dataset="d", perturbation="blur", **more):
    row = {"model": model, "dataset": dataset, "perturbation": perturbation, "parameter": "radius", "strength": strength, "metric": metric}
    return {**row, "estimator": estimator, "value": value, "low": None, "high": None, "clean": 0.9, **more}


def figures(rows, models=("m",), datasets=("d",)):
    frame = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], schema=COLUMNS)
    return sweeps(made_results([score("accuracy", 0.5, m, d) for m in models for d in datasets], plots={"sweeps": frame}))


def test_accuracy_is_a_line_per_model_in_order_of_strength(drawn):
    rows = [point(10.0, 0.25, low=0.125, high=0.5), point(2.0, 0.75, low=math.nan, high=0.875), point(5.0, None), point(4.0, math.nan),
            point(2.0, 0.5, model="n"), point(2.0, 0.5, dataset="gone")]  # fmt: skip
    (figure,) = figures(rows, ("n", "m", "silent"))
    ((lines, names, x, y),) = drawn
    assert names == ["n", "m", "silent"] and (x, y) == ("radius", "accuracy") and not figure.folded
    assert lines == [
        {"model": "m", "x": 2.0, "value": 0.75, "low": 0.75, "high": 0.875},
        {"model": "m", "x": 10.0, "value": 0.25, "low": 0.125, "high": 0.5},
        {"model": "n", "x": 2.0, "value": 0.5, "low": 0.5, "high": 0.5},
    ]  # fmt: skip
    assert figure.title == "Accuracy against strength: d" and [(p.title, p.note) for p in figure.panels] == [("blur: radius", "clean 0.90")]
    assert figure.legend == [("var(--c0)", "n"), ("var(--c1)", "m")]
    assert figure.table == (
        ["sweep", "model", "strength", "value (interval)"],
        [["blur: radius", "m", "2", "0.750"], ["blur: radius", "m", "10", "0.25 (0.12 – 0.50)"], ["blur: radius", "n", "2", "0.500"]],
    )


def test_a_panel_per_sweep_and_a_clean_value_only_where_it_is_one(drawn):
    rows = [point(1.0, 0.5), point(1.0, 0.5, clean=0.8), point(1.0, 0.5, perturbation="jpeg", clean=None), point(1.0, 0.5, metric="f1_idk")]
    (figure,) = figures(rows)
    assert [(p.title, p.note) for p in figure.panels] == [("blur: radius", ""), ("JPEG: radius", ""), ("blur: radius", "clean 0.90")]
    assert [y for *_, y in drawn] == ["accuracy", "accuracy", "F1 IDK"]
    assert figure.legend == [], "one model needs none"


@pytest.mark.parametrize(("n", "parts"), [(1, [1]), (8, [8]), (9, [5, 4]), (16, [8, 8]), (17, [6, 6, 5])])
def test_reflection_is_a_line_per_estimator_eight_at_most(drawn, n, parts):
    rows = [point(1.0, 0.5, f"{REFLECTION}@x=1", f"e{i}") for i in range(n)]
    made = figures(rows)
    suffixes = [f" ({i} of {len(parts)})" if len(parts) > 1 else "" for i in range(1, len(parts) + 1)]
    assert [f.title for f in made] == [f"URR against strength: m on d{suffix}" for suffix in suffixes]
    assert [len(names) for _, names, *_ in drawn] == parts and [len(lines) for lines, *_ in drawn] == parts
    assert [name for _, names, *_ in drawn for name in names] == [f"e{i}" for i in range(n)] and {y for *_, y in drawn} == {"URR"}
    assert made[0].legend == [(f"var(--c{i})", f"e{i}") for i in range(parts[0])] and made[0].table[0][1] == "estimator"


def test_mean_uncertainty_is_folded_a_figure_per_estimator(drawn):
    rows = [point(1.0, 2.0, UNCERTAINTY, "p_true"), point(1.0, 3.0, UNCERTAINTY, "perplexity", "n"), point(1.0, 0.5, "auroc", "p_true")]
    made = figures(rows, ("m", "n"))
    assert [(f.title, f.folded) for f in made] == [
        ("Accuracy against strength: d", False), ("Mean uncertainty against strength: P(True) on d", True),
        ("Mean uncertainty against strength: perplexity on d", True),
    ]  # fmt: skip
    assert [y for *_, y in drawn] == ["AUROC", "mean uncertainty", "mean uncertainty"]


def test_estimators_in_parts():
    assert shifts._split_evenly([], 8) == [] and shifts._split_evenly(["a"], 8) == [["a"]]
    assert shifts._split_evenly(list("abc"), 2) == [["a", "b"], ["c"]] and shifts._split_evenly(list("abcd"), 3) == [["a", "b"], ["c", "d"]]


def test_without_sweeps_there_are_no_figures(drawn):
    assert sweeps(made_results([score("accuracy", 0.5)])) == [] == figures([]) == figures([point(1.0, 0.5, dataset="gone")])
    assert drawn == []


THRESHOLD = {"model": "m", "dataset": "d", "setting": "ours", "score": "lac", "alpha": 0.125}


def covered(scores):
    return coverage(made_results(scores, thresholds=[THRESHOLD]), ["typos", "blur", "never"])


def test_coverage_is_drawn_against_what_was_asked_for(drawn):
    lac, aps = "coverage[ours/lac]", "coverage[ours/aps]"
    scores = [
        score(lac, 0.875, low=0.75, high=1.0), score(lac, 0.75, variant="blur", low=0.5, high=0.8749),
        score(lac, 0.75, variant="typos", low=0.5, high=0.875), score(lac, 0.5, variant="blur", model="n"),
        score(lac, None, variant="typos", model="n"), score(lac, 0.1, variant="blur", slice="kind=a"), score(lac, 0.1, dataset="e"),
        score("coverage[other/lac]", 0.1), score("set_size[ours/lac]", 2.0), score(aps, None), score(lac, 0.5, model="n"),
    ]  # fmt: skip
    figure, other = covered(scores)
    assert (figure.title, other.title) == ("Conformal coverage under perturbation: d", "Conformal coverage under perturbation: e")
    rows, order, models, goal = drawn[0]
    assert order == ["clean", "typos", "blur"] and models == ["m", "n"] and goal == 0.875
    assert [(r["row"], r["model"], r["value"], r["low"], r["high"]) for r in rows] == [
        ("clean", "m", 0.875, 0.75, 1.0), ("blur", "m", 0.75, 0.5, 0.8749), ("typos", "m", 0.75, 0.5, 0.875), ("blur", "n", 0.5, 0.5, 0.5),
        ("clean", "n", 0.5, 0.5, 0.5),
    ]  # fmt: skip
    assert figure.caption.endswith("Dashed: target coverage. In 2 of 3 perturbed cells the whole interval lies below it.")
    assert [p.title for p in figure.panels] == ["coverage (LAC), target 0.88"] and figure.wide
    assert figure.table == (
        ["model", "variant", "LAC"],
        [["m", "clean", "0.88 (0.75 – 1.00)"], ["m", "blur", "0.75 (0.50 – 0.87)"], ["m", "typos", "0.75 (0.50 – 0.88)"],
         ["n", "blur", "0.500"], ["n", "clean", "0.500"]],
    )  # fmt: skip
    assert other.caption.endswith("In 0 of 0 perturbed cells the whole interval lies below it.") and other.legend == [("var(--c0)", "m")]
    assert figure.legend == [("var(--c0)", "m"), ("var(--c1)", "n")]


def test_a_missing_coverage_leaves_its_cell_empty_and_moves_no_other(drawn):
    (figure,) = covered([score("coverage[ours/lac]", 0.5), score("coverage[ours/aps]", 0.75, model="n")])
    assert figure.table == (["model", "variant", "LAC", "APS"], [["m", "clean", "0.500", "–"], ["n", "clean", "–", "0.750"]])


def test_without_coverage_there_is_no_figure(drawn):
    assert covered([score("accuracy", 0.5)]) == [] == covered([score("coverage[ours/lac]", None)])
