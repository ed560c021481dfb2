"""Metrics against one another and by category: which points and bars are drawn, and the correlations beside them."""

import math

import polars as pl
import pytest

from qualm.runners.reporting.sections import metric_study as module
from qualm.runners.reporting.sections.metric_study import category_figures, metric_study, study_claims
from qualm.runners.results.confidence_weighted_accuracy import ACCURACY, STUDIED
from tests.runners.reporting.made_results import made_results, sample, score

MODELS = [f"m{i}" for i in range(9)]
REFUSALS = {"d": [sample("a"), sample("b", answerable=False)]}


@pytest.fixture
def drawn(monkeypatch):
    calls = []
    monkeypatch.setattr(module.charts, "scatter", lambda rows, models, x, y: calls.append((rows, models, x, y)) or "<svg/>")
    monkeypatch.setattr(module.charts, "bars", lambda rows, order, models: calls.append((rows, order, models)) or "<svg/>")
    return calls


def study(rows, models=("m", "n"), samples=REFUSALS, correlations=()):
    columns = ("dataset", "slice", "metric", "model", "value", STUDIED)
    frame = pl.DataFrame(
        [dict(zip(columns, row, strict=True)) for row in rows],
        schema={c: pl.Float64 if c in ("value", STUDIED) else pl.String for c in columns},
    )
    scores = [score("accuracy", 0.5, m) for m in models] + [score("ece", 0.5, m) for m in models]
    return metric_study(made_results(scores, samples=samples, plots={"metric_study": frame}, correlations=correlations))


def test_a_dot_per_model_where_both_are_known_accuracy_first(drawn):
    rows = [
        ("d", "all", "ece", "m", 0.25, 0.75), ("d", "all", "lave_idk_accuracy", "n", 0.5, 0.5),
        ("d", "all", "lave_idk_accuracy", "m", 0.0, 1.0),
        ("d", "all", "ece", "n", None, 0.5), ("d", "kind=a", "ece", "n", 0.5, 0.5), ("d", "all", "accuracy", "n", math.nan, 0.5),
        ("d", "all", "accuracy", "m", 0.5, None),
    ]  # fmt: skip
    (figure,) = study(rows)
    assert figure.title == "Confidence-weighted accuracy against other metrics: d" and figure.wide
    assert [p.title for p in figure.panels] == ["LAVE IDK accuracy", "ECE ↓"]
    assert drawn[0][0] == [{"model": "n", "x": 0.5, "y": 0.5}, {"model": "m", "x": 0.0, "y": 1.0}]
    assert drawn[1][0] == [{"model": "m", "x": 0.25, "y": 0.75}] and drawn[1][1:] == (["m", "n"], "ECE ↓", "conf.-weighted accuracy ↑")
    assert figure.legend == [("var(--c0)", "m"), ("var(--c1)", "n")] and [p.note for p in figure.panels] == ["", ""]


def test_zero_is_a_value(drawn):
    """A model of no accuracy at all has a dot."""
    (figure,) = study([("d", "all", "ece", "m", 0.0, 0.0)])
    assert drawn[0][0] == [{"model": "m", "x": 0.0, "y": 0.0}] and len(figure.panels) == 1


@pytest.mark.parametrize(("n", "names"), [(8, 8), (9, 0)])
def test_models_beyond_the_colours_have_no_names(drawn, n, names):
    (figure,) = study([("d", "all", "ece", m, 0.5, 0.5) for m in MODELS[:n]], MODELS[:n])
    assert len(figure.legend) == names


def test_nothing_is_drawn_without_refusals_or_rows(drawn):
    rows = [("d", "all", "ece", "m", 0.5, 0.5)]
    assert study(rows, samples={"d": [sample("a")]}) == [] == study([]) == metric_study(made_results([score("ece", 0.5)]))
    assert study([("e", "all", "ece", "m", 0.5, 0.5)]) == [] == study([("d", "kind=a", "ece", "m", 0.5, 0.5)])
    assert study([("d", "all", "ece", "m", None, 0.5)]) == [] and len(study(rows, samples={})) == 1


def correlation(**more):
    row = {"dataset": "d", "slice": "all", "metric": "ece", "studied": STUDIED, "n_models": 3, "pearson": -0.987, "spearman": -0.5}
    return {**row, "pearson_low": -0.999, "pearson_high": -0.25, **more}


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (correlation(), "r = −0.99 (−1.00 to −0.25), ρ = −0.50"),
        (correlation(pearson_low=None), "r = −0.99, ρ = −0.50"),
        (correlation(pearson=None), "correlation undefined (3 models)"),
        (correlation(dataset="e"), ""),
        (correlation(slice="kind=a"), ""),
        (correlation(metric="accuracy"), ""),
        (correlation(studied="other"), ""),
    ],
)
def test_a_correlation_stands_beside_its_dots(drawn, row, note):
    (figure,) = study([("d", "all", "ece", "m", 0.5, 0.5)], correlations=[row])
    assert figure.panels[0].note == note


def test_the_claim_of_figure_4b_is_told_of_data_sets_with_refusals():
    rows = [correlation(n_models=2), correlation(studied=ACCURACY, n_models=2), correlation(metric=ACCURACY)]
    assert study_claims(made_results(samples=REFUSALS, correlations=rows)) == [("d", "ece: too few models (2; a correlation needs 3)")]
    assert study_claims(made_results(samples={"d": [sample("a")]}, correlations=rows)) == []


def sliced(models=("m", "n"), leaves=("epistemic/knowledge", "aleatoric/temporal"), metric="f1_idk"):
    rows = [score(metric, 0.5, m, slice=f"category={leaf}", low=0.25, high=0.75) for m in models for leaf in leaves]
    return [*rows, *(score(metric, 0.5, m) for m in models)]


def test_a_bar_per_model_and_category_with_its_interval(drawn):
    scores = sliced()
    scores[0] |= {"value": 0.0, "low": None, "high": None}
    scores[1] |= {"value": None}
    scores.append(score("lave_idk_accuracy", None, slice="category=epistemic/knowledge"))
    (figure,) = category_figures(made_results([*scores, score("lave_idk_accuracy", 0.5)], samples=REFUSALS))
    rows, order, models = drawn[0]
    assert order == ["knowledge", "temporal"] and models == ["m", "n"] and len(drawn) == 1
    assert rows == [
        {"group": "knowledge", "model": "m", "value": 0.0, "low": 0.0, "high": 0.0},
        {"group": "knowledge", "model": "n", "value": 0.5, "low": 0.25, "high": 0.75},
        {"group": "temporal", "model": "n", "value": 0.5, "low": 0.25, "high": 0.75},
    ]
    assert figure.title == "By category: d" and [p.title for p in figure.panels] == ["F1 IDK ↑"]
    assert figure.wide and figure.legend == [("var(--c0)", "m"), ("var(--c1)", "n")]


def test_categories_of_one_name_have_a_place_each(drawn):
    category_figures(made_results(sliced(leaves=("epistemic/other", "aleatoric/other")), samples=REFUSALS))
    ((rows, order, _),) = drawn
    assert len(set(order)) == 2 and {row["group"] for row in rows} == set(order)


def test_two_categories_are_the_fewest_and_eight_models_the_most(drawn):
    assert category_figures(made_results(sliced(leaves=("epistemic/knowledge",)), samples=REFUSALS)) == []
    assert category_figures(made_results(sliced(metric="accuracy"), samples=REFUSALS)) == []
    assert category_figures(made_results(sliced(), samples={"d": [sample("a")]})) == []
    (eight,) = category_figures(made_results(sliced(MODELS[:8]), samples=REFUSALS))
    assert len(eight.panels) == 1
    assert category_figures(made_results(sliced(MODELS), samples=REFUSALS)) == []


def test_where_models_are_too_many_those_that_abstain_are_left_out(drawn):
    rules = [{"model": "m0", "method": "cut", "dataset": "d"}]
    models = [*MODELS[:8], "m0+cut"]
    (figure,) = category_figures(made_results(sliced(models), samples=REFUSALS, rules=rules))
    assert drawn[0][2] == MODELS[:8] and "are left out" in figure.caption
    (all_of_them,) = category_figures(made_results(sliced(models[1:]), samples=REFUSALS, rules=rules))
    assert "m0+cut" in drawn[1][2] and "are left out" not in all_of_them.caption


def test_categories_without_any_value_are_not_drawn(drawn):
    scores = [{**row, "value": None} for row in sliced()]
    assert category_figures(made_results(scores, samples=REFUSALS)) == [] and drawn == []


def test_models_of_another_data_set_have_no_bars(drawn):
    scores = [*sliced(("m",)), score("f1_idk", 0.5, "other", "e")]
    category_figures(made_results(scores, samples=REFUSALS))
    assert {row["model"] for row in drawn[0][0]} == {"m"} and drawn[0][2] == ["m", "other"], "colours are those of all models"
