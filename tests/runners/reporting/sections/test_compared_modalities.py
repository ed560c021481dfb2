"""Tests between modalities, in sentences: from a few tests, worked out by hand."""

from qualm.registry.sample import LABELLED_SCORES, MODALITY_COMPARISONS
from qualm.runners.reporting import sentences as say
from qualm.runners.reporting.sections.compared_modalities import (
    describe_hallucination_differences,
    describe_modality_differences,
    modality_tests_table,
)
from qualm.runners.reporting.sections.perturbed_by_modality import describe_hallucination
from qualm.runners.results.perturbation import CONSISTENCY, HALLUCINATION, PERTURBED, REFLECTION
from tests.runners.reporting.made_results import frame, made_results, score

EMPTY = frame([], MODALITY_COMPARISONS)


def pair(metric, a, b, values, p, low=None, high=None, **more):
    difference = round(values[1] - values[0], 6)
    row = {"model": "m", "dataset": "d", "slice": "changed", "metric": metric, "a": a, "b": b, "value_a": values[0], "value_b": values[1]}
    return row | {"difference": difference, "low": low, "high": high, "p_adjusted": p, "n": 9} | more


def rows_of(*rows):
    return frame(rows, MODALITY_COMPARISONS)


def test_significant_differences_are_counted_and_the_largest_named():
    rows = rows_of(
        pair(f"{REFLECTION}[a]", "image", "text", (0.25, 0.75), 0.01, 0.375, 0.625),
        pair(f"{REFLECTION}[p_true]", "image", "text", (0.875, 0.125), 0.002, -0.875, -0.5),
        pair(f"{REFLECTION}[c]", "image", "text", (0.125, 1.0), 0.05),
        pair(f"{REFLECTION}[a]", "image", "cross", (0.25, 0.5), None),
        pair(f"{CONSISTENCY}[a]", "image", "text", (0.0, 1.0), 0.001),
    )
    assert describe_modality_differences(rows) == (
        "Significant differences in URR over the changed inputs between modalities, of 3 estimators: text above image for 1, below for 1; "
        "cross above image for 0, below for 0; the others are statistically tied. Largest significant difference: P(True) (m on d), "
        "image 0.875 against text 0.125: +0.75 (+0.50 to +0.88), corrected p = 0.0020."
    )


def test_nothing_is_compared_without_a_test():
    assert (
        describe_modality_differences(EMPTY) == say.MODALITIES_UNTESTED
        and describe_hallucination_differences(EMPTY) == ""
        and modality_tests_table(EMPTY, made_results()) is None
    )
    one = rows_of(pair(f"{REFLECTION}[a]", "image", "text", (0.25, 0.75), 0.2, slice="all"))
    assert describe_modality_differences(one) == (
        "Significant differences in URR between modalities, of the one estimator: text above image for 0, below for 0; "
        "the others are statistically tied."
    )


def test_hallucination_of_one_modality_against_another():
    rows = rows_of(
        pair(HALLUCINATION, "image", "text", (0.25, 0.5), 0.01, 0.125, 0.375), pair(HALLUCINATION, "text", "cross", (0.5, 0.5), 1.0)
    )
    told = "Significant: text 0.500 against image 0.250: +0.25 (+0.12 to +0.38), corrected p = 0.0100. The others are statistically tied. "
    assert describe_hallucination_differences(rows) == told
    means = frame([score(HALLUCINATION, 0.25, variant="image")], LABELLED_SCORES)
    assert describe_hallucination(made_results([score("accuracy", 0.5)]), means, rows).endswith(told)
    none = rows_of(pair(HALLUCINATION, "image", "text", (0.25, 0.5), 0.5))
    assert describe_hallucination_differences(none) == "All modalities are statistically tied. "
    two = rows_of(
        pair(HALLUCINATION, "image", "text", (0.25, 0.5), 0.01), pair(HALLUCINATION, "image", "text", (0.5, 0.25), 0.02, model="n")
    )
    assert describe_hallucination_differences(two) == (
        "Significant: text 0.500 against image 0.250: +0.250, corrected p = 0.0100 (m on d); "
        "image 0.500 against text 0.250: +0.250, corrected p = 0.0200 (n on d). "
    )


def test_all_tests_stand_in_a_table():
    rows = [pair(f"{REFLECTION}@x=1[a]", "image", "text", (0.25, 0.75), 0.01, 0.375, 0.625)]
    rows += [pair(HALLUCINATION, "image", "text", (0.5, 0.25), p) for p in [0.01, 0.5] * 70]
    results = made_results()
    results.stage.inputs["modality_comparisons"] = "results/s/modality_comparisons.parquet"
    sheet = modality_tests_table(rows_of(*rows), results)
    assert len(sheet.rows) == 120 and "The first 120 of 141 are shown; all are in results/s/modality_comparisons.parquet." in sheet.note
    first, second, third = (list(map(str, row)) for row in sheet.rows[:3])
    assert first == ["m on d", "URR x=1 a", "text against image", "+0.50", "+0.38\xa0to\xa0+0.62", "0.0100", "higher"]
    assert (
        second[1] == "hallucination rate" and second[-1] == "lower" and third[-1] == "statistically tied" and third[4] == "no\xa0interval"
    )


def test_the_table_calls_metrics_as_the_tables_above_it_do():
    rows = [pair(f"{metric}[luq]", "image", "text", (0.25, 0.5), 0.01) for metric in (PERTURBED, REFLECTION, CONSISTENCY)]
    sheet = modality_tests_table(rows_of(*rows), made_results())
    assert [row[1] for row in sheet.rows] == ["AUROC, perturbed from clean LUQ", "URR LUQ", "HCC LUQ"]
