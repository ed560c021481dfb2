"""Macro averages in the report: leaderboards of their own, and no dataset or slice of the others."""

from dataclasses import replace

from qualm.registry.sample import LABELLED_SCORES, RANKINGS
from qualm.runners.reporting.sections.leaderboard import macro_averages
from tests.runners.reporting.made_results import frame, made_results, ranked, score


def test_every_average_has_a_leaderboard_with_marks():
    results = made_results([score("accuracy", 0.5, m) for m in "mn"])
    averages = [score("accuracy", value, m, slice="macro:category", low=0.25, high=0.75) for m, value in (("m", 0.25), ("n", 0.75))]
    averages += [score("accuracy", 0.625, "m", "macro:datasets"), score("accuracy", 0.125, "m", "macro:datasets", slice="macro:category")]
    averages += [score("accuracy", 0.375, "m", slice="macro:category", variant="blur")]
    marks = [{**row, "slice": "macro:category"} for row in ranked(results, "models", "accuracy", ["n", "m"], 0)]
    results = replace(results, averages=frame(averages, LABELLED_SCORES), rankings=frame(marks, RANKINGS))
    (category, (of_category,)), (datasets, (of_datasets,)), (both, _) = macro_averages(results)
    assert (category, datasets, both) == ("d: mean over category", "mean over datasets", "mean over datasets of the mean over category")
    assert [(model, cell.value, cell.rank) for model, (cell,) in of_category.rows] == [("n", "0.8", "best"), ("m", "0.2", "")]
    assert [(model, cell.value) for model, (cell,) in of_datasets.rows] == [("m", "0.625")]
    assert results.datasets == ["d"]
