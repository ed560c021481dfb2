"""Means by modality as grids and sentences, from a few rows."""

import polars as pl

from qualm.registry.sample import LABELLED_SCORES, MODALITY_COMPARISONS
from qualm.runners.reporting.heat import HeatCell
from qualm.runners.reporting.sections.perturbed_by_modality import describe_detection, describe_hallucination, modality_heat_maps
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION
from tests.runners.reporting.made_results import frame, made_results, score


def mean(metric, modality, value, *whose, **more):
    return score(metric, value, *whose, variant=modality, **more)


def means(*rows) -> pl.DataFrame:
    return frame(rows, LABELLED_SCORES)


UNTESTED = frame([], MODALITY_COMPARISONS)


def test_a_grid_has_estimators_against_modalities_coloured_from_chance():
    rows = means(
        mean(f"{PERTURBED}[p_true]", "text", 0.75, low=0.5, high=0.875, n=1200, n_unscored=3), mean(f"{PERTURBED}[p_true]", "image", 0.25),
        mean(f"{PERTURBED}[perplexity]", "image", None, n=4), mean(f"{PERTURBED}", "image", 0.9), mean("accuracy[x]", "image", 0.9),
    )  # fmt: skip
    (grid,) = modality_heat_maps(rows)
    assert (grid.caption, grid.first, grid.columns) == ("m · d", "Estimator", [("image", ""), ("text", "")])
    assert grid.rows == [
        ("P(True)", [HeatCell("0.250", "", 52, "down", "n = 10"), HeatCell("0.75", "0.50 – 0.88", 52, "up", "n = 1,200, unscored 3")]),
        ("perplexity", [HeatCell("undefined", title="n = 4", undefined=True), HeatCell("–", title="not measured")]),
    ]


def test_values_are_over_the_changed_inputs_where_some_are_unchanged():
    rows = means(
        mean(f"{REFLECTION}[a]", "image", 0.75), mean(f"{REFLECTION}[a]", "image", 0.75, slice="changed"),
        mean(f"{REFLECTION}[a]", "text", 0.25), mean(f"{REFLECTION}[a]", "text", 0.5, slice="changed"),
        mean("unchanged_input_rate", "image", 0.0), mean("unchanged_input_rate", "text", 0.5),
    )  # fmt: skip
    (grid,) = modality_heat_maps(rows)
    assert grid.columns == [("image", ""), ("text", "50% unchanged")] and grid.groups == [("URR", 2)]
    assert [c.value for c in grid.rows[0][1]] == ["0.750", "0.500"] and grid.rows[0][1][1].title == "n = 10; over all inputs 0.250"


def test_colour_is_relative_to_the_most_extreme_cell_and_at_least_to_a_fifth():
    (faint,) = modality_heat_maps(means(mean(f"{REFLECTION}[a]", "image", 0.1), mean(f"{REFLECTION}[a]", "text", -0.05)))
    assert [(c.heat, c.tone) for _, cells in faint.rows for c in cells] == [(26, "up"), (13, "down")]
    (strong,) = modality_heat_maps(means(mean(f"{CONSISTENCY}[a]", "image", -0.8), mean(f"{CONSISTENCY}[a]", "text", 0.4)))
    assert [(c.heat, c.tone) for _, cells in strong.rows for c in cells] == [(52, "down"), (26, "up")]


def test_grids_follow_models_then_the_questions_and_name_their_sweep():
    rows = [mean(f"{metric}[a]", "cross", 0.5, model, dataset) for metric in (CONSISTENCY, f"{REFLECTION}@pairs=all", PERTURBED)
            for model, dataset in (("b", "d"), ("a", "d"), ("b", "e"))]  # fmt: skip
    assert [grid.caption for grid in modality_heat_maps(means(*rows))] == ["b · d", "a · d", "b · e"]
    assert modality_heat_maps(means(*rows))[0].groups == [("AUROC, perturbed from clean", 1), ("URR pairs=all", 1), ("HCC", 1)]
    assert modality_heat_maps(means()) == []


def test_what_is_captured_is_told_from_data_sets_that_know_it():
    scores = [
        score("auroc_uncertain[p_true]", 0.7, low=0.6, high=0.8), score("auroc_uncertain[perplexity]", 0.9), score("accuracy", 0.95),
        score("auroc_uncertain[p_true]", 0.5, dataset="e"), score("auroc_uncertain[perplexity]", None, dataset="e"),
        score("auroc_uncertain[p_true]", 0.99, slice="kind=a"), score("auroc_uncertain[p_true]", 0.99, variant="blur"),
    ]  # fmt: skip
    assert describe_detection(made_results(scores), means(mean(f"{PERTURBED}[a]", "image", 0.9))) == (
        "Highest AUROC for separating uncertain from clear questions (0.5 is chance): on d: perplexity of m, 0.900; "
        "on e: P(True) of m, 0.500."
    )


def test_the_highest_that_was_not_ranked_is_said_without_allowing_for_the_choice():
    """Its model was asked a part of the questions, or too few resamples have a value of it."""
    scores = [score("auroc_uncertain[a]", 0.9, low=0.5, high=1.0), *(score(f"auroc_uncertain[{e}]", 0.7) for e in "bc")]
    same = {
        "dataset": "d",
        "variant": "clean",
        "slice": "all",
        "metric": "auroc_uncertain",
        "among": "models and estimators",
        "leader": "m/b",
    }
    ranked = [
        {**same, "leader": "m/b", "candidate": f"m/{e}", "value": 0.7, "p_adjusted": p, "candidates": 2}
        for e, p in (("b", None), ("c", 0.5))
    ]
    told = "Highest AUROC for separating uncertain from clear questions (0.5 is chance): on d: "
    assert describe_detection(made_results(scores, rankings=ranked), means()) == f"{told}a of m, 0.9 (0.5 – 1.0, not selection-adjusted)."
    assert (
        describe_detection(made_results(scores[1:], rankings=ranked), means()) == f"{told}b of m, 0.700, statistically tied with 1 other."
    )


def test_else_from_telling_perturbed_inputs_apart():
    rows = means(
        mean(f"{PERTURBED}[a]", "text", 0.6), mean(f"{PERTURBED}@x=1[b]", "text", 0.7, low=0.6, high=0.8),
        mean(f"{PERTURBED}[c]", "image", 0.5),
        mean(f"{REFLECTION}[a]", "image", 0.99),
    )  # fmt: skip
    assert describe_detection(made_results([score("accuracy", 0.5)]), rows) == (
        "Highest AUROC for separating perturbed from clean inputs (mean over perturbations; 0.5 is chance): image: c of m, 0.500; "
        "text: b of m, 0.70 (0.60 – 0.80). They are the best of many, and their intervals are not selection-adjusted."
    )
    assert describe_detection(made_results([score("accuracy", 0.5)]), means()) == ""


def test_of_equals_the_first_is_named():
    rows = means(mean(f"{PERTURBED}[a]", "image", 0.6), mean(f"{PERTURBED}[b]", "image", 0.6))
    assert "image: a of m" in describe_detection(made_results([score("accuracy", 0.5)]), rows)


def test_kinds_average_variants_first_and_leave_collapses_out():
    """Blur's two strengths have .3 and .5, so blur has .4; with dark's .2 that is .3. Solarize's 1.0 is out."""
    scores = [score(HALLUCINATION, value, slice="category=few", variant=v, collapsed=why) for v, value, why in (
        ("blur@radius=1", 0.3, None), ("blur@radius=2", 0.5, None), ("dark", 0.2, None), ("solarize", 1.0, "zero"))]  # fmt: skip
    results = made_results(scores)
    results.stage.params["variants"] = [{"variant": v, "plugin": v.partition("@")[0]} for v in ("blur@radius=1", "blur@radius=2", "dark")]
    rows = means(mean(HALLUCINATION, "image", 0.25), mean(HALLUCINATION, "image", 0.5, slice="changed"))
    assert describe_hallucination(results, rows, UNTESTED) == (
        "Share of questions whose right answer becomes wrong over the samples whose input is changed: image 0.500; "
        "by kind of question, over all samples: few 0.300 (means over perturbations, models and datasets). "
    )


def test_hallucination_by_modality_and_by_kind_of_question():
    rows = means(
        mean(HALLUCINATION, "text", 0.5), mean(HALLUCINATION, "image", 0.25), mean(f"{HALLUCINATION}@x=1", "image", 0.75, model="n"),
        mean(HALLUCINATION, "cross", None), mean("accuracy", "cross", 0.9),
    )  # fmt: skip
    scores = [
        score(HALLUCINATION, 0.25, slice="category=few"), score(HALLUCINATION, 0.5, slice="category=many", variant="blur"),
        score(HALLUCINATION, 0.75, slice="category=many"), score(HALLUCINATION, None, slice="category=none"),
        score("accuracy", 0.9, slice="category=few"), score(HALLUCINATION, 0.9),
    ]  # fmt: skip
    assert describe_hallucination(made_results(scores), rows, UNTESTED) == (
        "Share of questions whose right answer becomes wrong: image 0.500, text 0.500; by kind of question: many 0.625, few 0.250 "
        "(means over perturbations, models and datasets, of all questions). "
    )
    bare = describe_hallucination(made_results([score("accuracy", 0.5)]), rows, UNTESTED)
    assert bare == (
        "Share of questions whose right answer becomes wrong: image 0.500, text 0.500 "
        "(means over perturbations, models and datasets, of all questions). "
    )
    assert describe_hallucination(made_results(scores), means(), UNTESTED) == ""
