"""Metrics with intervals and paired tests of plain tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_rel

import qualm
from qualm.compiler.results.array_columns import ArgumentError

RNG = np.random.default_rng(11)
N = 120
ANSWERS = {
    "correct": (RNG.random(N) < 0.7).astype(float).tolist(),
    "confidence": RNG.random(N).tolist(),
    "entropy": RNG.random(N).tolist(),
    "spread": RNG.random(N).tolist(),
    "picture": [f"p{i // 3}" for i in range(N)],
    "kind": ["a", "b"] * (N // 2),
}


def test_values_are_those_of_the_functions_and_rows_say_how_they_came() -> None:
    table = qualm.score(ANSWERS, ["accuracy", {"ece": {"bins": 5}}, "auroc"], uncertainties=["entropy", "spread"], groups="picture")
    assert table["metric"].to_list() == ["accuracy", "ece", "auroc", "auroc"]
    assert table["uncertainty"].to_list() == [None, None, "entropy", "spread"]
    expected = [
        np.mean(ANSWERS["correct"]),
        qualm.metrics.ece(ANSWERS["confidence"], ANSWERS["correct"], bins=5),
        *(qualm.metrics.auroc(ANSWERS[name], ANSWERS["correct"]) for name in ("entropy", "spread")),
    ]
    np.testing.assert_allclose(table["value"].to_list(), expected)
    assert table["n_groups"].to_list() == [40] * 4
    assert '"bins": 5' in table["parameters"][1]
    assert all(low <= value <= high for low, value, high in table.select("low", "value", "high").drop_nulls().rows())


def test_groups_make_intervals_wider_where_rows_repeat() -> None:
    correct = np.repeat(RNG.integers(0, 2, 40), 3)
    table = {"correct": correct, "picture": np.repeat(np.arange(40), 3)}
    alone, grouped = (qualm.score(table, ["accuracy"], groups=groups).row(0, named=True) for groups in (None, "picture"))
    assert grouped["high"] - grouped["low"] > 1.4 * (alone["high"] - alone["low"])


def test_slices_and_what_is_left_out() -> None:
    correct = [None if i < 5 else value for i, value in enumerate(ANSWERS["correct"])]
    table = qualm.score(ANSWERS | {"correct": correct}, ["accuracy"], by=["kind"], resamples=50)
    assert table["slice"].to_list() == ["all", "kind=a", "kind=b"]
    assert table["n"].to_list() == [115, 57, 58] and table["n_unscored"].to_list() == [5, 3, 2]


def test_macro_averages_count_every_value_alike() -> None:
    table = {"correct": [1, 0, 0, 0, 1, 1], "kind": ["a", "a", "a", "a", "b", "b"]}
    whole, averaged = qualm.score(table, ["accuracy"], macro_averages=["kind"], resamples=50).to_dicts()
    assert (whole["slice"], whole["value"], averaged["slice"], averaged["value"]) == ("all", 0.5, "macro:kind", 0.625)
    assert averaged["why_no_interval"] == "kind=a: 4 scored groups: an interval needs 5"


def test_options_say_what_was_chosen_and_how_sure() -> None:
    table = {"option_probabilities": [[0.7, 0.3], [0.2, 0.3, 0.5], [0.6, 0.4]], "right_option": [0, 1, None]}
    scores = qualm.score(table, ["accuracy", "nll"], resamples=50)
    assert scores.row(0, named=True)["value"] == 0.5 and scores.row(0, named=True)["n"] == 2
    assert scores.row(0, named=True)["why_no_interval"]


def test_rows_without_options_are_left_out_and_own_columns_win() -> None:
    options = [[0.7, 0.3], None, [0.2, 0.3, 0.5], [0.5, 0.5]]
    plain = qualm.score({"option_probabilities": options, "right_option": [0, 0, 1, 0]}, ["accuracy", "brier"], resamples=50)
    assert plain.select("value", "n", "n_unscored").rows() == [
        (pytest.approx(2 / 3), 3, 1), (pytest.approx((0.3**2 + 0.5**2 + 0.5**2) / 3), 3, 1),
    ]  # fmt: skip
    own = {"option_probabilities": options, "right_option": [0, 0, 1, 0], "correct": [0, 1, 0, 0], "confidence": [1, 1, 0, 0]}
    assert qualm.score(own, ["accuracy", "brier"], resamples=50)["value"].to_list() == [0.25, 0.25]


def test_the_better_side_is_named_whichever_it_is() -> None:
    low, high = ({"correct": [1 - x] * 20 + [x] * 4, "confidence": [0.9] * 24} for x in (1, 0))
    for a, b, better in ((low, high, "b"), (high, low, "a"), (low, low, None)):
        accuracy, brier = qualm.compare(a, b, ["accuracy", "brier"], resamples=50).to_dicts()
        assert accuracy["better"] == brier["better"] == better and (accuracy["n"], accuracy["level"]) == (24, 0.95)
        assert (accuracy["higher_is_better"], brier["higher_is_better"]) == (True, False)


def test_undefined_is_null_with_the_reason() -> None:
    row = qualm.score({"correct": [1] * 10, "uncertainty": list(range(10))}, ["auroc"]).row(0, named=True)
    assert row["value"] is None and row["low"] is None


def test_the_paired_test_is_students_t() -> None:
    a, b = RNG.random(40), RNG.random(40)
    row = qualm.compare({"correct": a}, {"correct": b}, ["accuracy"], resamples=0, margin=0.5).row(0, named=True)
    assert row["p"] == pytest.approx(ttest_rel(b, a).pvalue, rel=0.1) and row["difference"] == pytest.approx((b - a).mean())
    assert row["margin"] == 0.5 and row["p_equivalent"] < 0.001


def test_rows_are_paired_by_name_whatever_their_order() -> None:
    a = pl.DataFrame({"id": range(N), "correct": ANSWERS["correct"], "picture": ANSWERS["picture"]})
    b = pl.DataFrame({"id": range(N), "correct": np.minimum(1, np.array(ANSWERS["correct"]) + (RNG.random(N) < 0.6))})
    mixed = b.sample(fraction=1, shuffle=True, seed=1)
    same, other = (qualm.compare(a, x, ["accuracy"], on="id", groups="picture", resamples=100) for x in (b, mixed))
    assert same.equals(other) and same["better"].to_list() == ["b"]
    part = qualm.compare(a, b.head(60), ["accuracy"], on="id", resamples=100)
    assert part["n"].to_list() == [60]


def test_p_values_are_corrected_over_all_metrics_of_the_call() -> None:
    other = ANSWERS | {"confidence": RNG.random(N).tolist(), "correct": (RNG.random(N) < 0.6).astype(float).tolist()}
    table = qualm.compare(ANSWERS, other, ["accuracy", "ece", "brier"], groups="picture", resamples=100)
    assert all(p <= adjusted for p, adjusted in table.select("p", "p_adjusted").rows())
    plain = qualm.compare(ANSWERS, other, ["accuracy"], groups="picture", resamples=100, correction="none")
    assert plain["p"][0] == plain["p_adjusted"][0] == table["p"][0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qualm.score({"correct": [1]}, ["auroc"]), "auroc reads uncertainty (none of uncertainty), which the table does not have"),
        (lambda: qualm.score({"right": [1]}, ["accuracy"]), "accuracy reads correct"),
        (lambda: qualm.score(ANSWERS, ["accuracy"], groups="pictures"), "no column 'pictures'; did you mean 'picture'"),
        (lambda: qualm.score(ANSWERS, ["accuracy"], by=["kinds"]), "no column 'kinds'"),
        (lambda: qualm.score(ANSWERS, ["accuracy", "accuracy"]), "got accuracy twice"),
        (lambda: qualm.score(ANSWERS, ["set_size"]), "conformal.calibrate"),
        (lambda: qualm.score(ANSWERS, ["uncertainty_reflection_rate"]), "of perturbed answers"),
        (lambda: qualm.compare({"correct": [1]}, {"correct": [1, 0]}, ["accuracy"]), "expected as many answers of both, got 1 and 2"),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["accuracy"], correction="bonferroni"), "correction: "),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["accuracy"], margin=-0.1), "margin: "),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["accuracy"], margin={"acc": 0.1}), "margin: expected one of `metrics`, got 'acc'"),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["ece"], margin={"ece": 0.1}), "margin: ece is compared by the square of ece_debiased"),
        (lambda: qualm.score(ANSWERS, ["accuracy"], level=95), "level: "),
        (lambda: qualm.score(ANSWERS, ["accuracy"], level=float("nan")), "level: "),
        (lambda: qualm.score(ANSWERS, ["accuracy"], resamples=2.5), "resamples: "),
        (lambda: qualm.score(ANSWERS, ["accuracy"], seed=-1), "seed: "),
        (lambda: qualm.score(ANSWERS, []), "metrics: expected at least one"),
        (lambda: qualm.score({"correct": [], "confidence": []}, ["accuracy"]), "the table has no rows"),
        (lambda: qualm.score({"correct": [1, 0, 100]}, ["accuracy"]), "correct: row 2: expected a number between 0 and 1, got 100"),
        (lambda: qualm.score(ANSWERS | {"confidence": [0.5, 1.3] * 60}, ["brier"]), "confidence: row 1: expected a number between 0 and 1"),
        (lambda: qualm.compare(ANSWERS, ANSWERS | {"correct": [-1] * N}, ["accuracy"]), "correct: row 0"),
        (
            lambda: qualm.score({"option_probabilities": [[0.5, 0.5]], "right_option": [2]}, ["accuracy"]),
            "row 0: expected an option index from 0 to 1 (2 options)",
        ),
        (lambda: qualm.score({"option_probabilities": [[0.5, 0.6]], "right_option": [0]}, ["accuracy"]), "sum to 1, got a sum of 1.1"),
        (lambda: qualm.score({"option_probabilities": [[]], "right_option": [0]}, ["accuracy"]), "option_probabilities: expected a list"),
        (lambda: qualm.metrics.accuracy([0, 7]), "correct: row 1"),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["accuracy"], on="kind"), "not distinct"),
        (lambda: qualm.compare(ANSWERS, ANSWERS, ["accuracy"], on="id"), "a has no column 'id'"),
        (
            lambda: qualm.compare({"id": [1, 2], "correct": [1, 0]}, {"id": ["1", "2"], "correct": [1, 0]}, ["accuracy"], on="id"),
            "'id' is of type Int64 in a and String in b",
        ),
        (
            lambda: qualm.compare({"id": [1, 2], "correct": [1, 0]}, {"id": [3, 4], "correct": [1, 0]}, ["accuracy"], on="id"),
            "a and b have no value of 'id' in common",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError) as error:
        call()
    assert message in str(error.value)
