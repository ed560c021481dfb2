"""Calibrators compared: through the score stage on a small table, and the interval of a difference by hand."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qualm.registry.sample import CALIBRATOR_COMPARISONS, COMPARISONS, LABELLED_SCORES, RECALIBRATED
from qualm.runners.scoring.calibration.comparisons import Comparisons, MeasuredCalibrator, difference
from qualm.runners.scoring.calibration.fits import Recalibration
from qualm.runners.scoring.limits import Limits, critical, standard_error
from qualm.runners.scoring.measuring.measured import Measured
from qualm.runners.scoring.rankings import MIN_GROUPS
from tests.runners.stages import test_score as small
from tests.support.projects.scored import rows_of

HELD = {
    "label": "held",
    "methods": [small.ref("temperature"), small.ref("platt", prior_correction=True)],
    "of": ["perplexity", ""],
    "calibration": {"fraction": 0.5, "seed": 3},
    "refits": 50,
}
"""The confidence comes second: `raw` is compared with both all the same."""

ENSEMBLE = HELD | {"label": "ensemble", "methods": [small.ref("logistic_regression", l2=1.0)], "of": ["", ["", "perplexity"]]}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Scores, comparisons of calibrators, answers and comparisons of models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scored"))
        patch.setattr(small, "OUTPUTS", [*small.OUTPUTS, "calibrator_comparisons", "recalibrated", "comparisons"])
        compare = {"baseline": "m1", "pairs": [], "margin": None, "correction": "max_t", "family": "study"}
        small.World().run_all(
            calibrators=[ENSEMBLE, HELD],
            compare=compare,
            slices=["category"],
            metrics=[small.ref("ece"), small.ref("brier"), small.ref("accuracy")],
        )
        tables = {
            "scores": LABELLED_SCORES,
            "calibrator_comparisons": CALIBRATOR_COMPARISONS,
            "recalibrated": RECALIBRATED,
            "comparisons": COMPARISONS,
        }
        yield {name: rows_of(Path("results") / name, schema) for name, schema in tables.items()}


@pytest.mark.slow
def test_scores_are_over_the_rows_that_do_not_calibrate(rows):
    labels = {r["metric"] for r in rows["scores"]}
    assert {"ece[held/raw]", "ece[held/temperature]", "ece[held/platt]", "ece[held/platt/perplexity]"} <= labels
    assert "accuracy[held/raw]" not in labels and "ece[held/temperature/perplexity]" not in labels
    by = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in rows["scores"]}
    for metric in ("raw", "temperature", "platt"):
        row = by["m1", "choice", "clean", "all", f"ece[held/{metric}]"]
        calibrating = {r["sample_id"] for r in rows["recalibrated"] if r["dataset"] == "choice" and r["is_calibration"]}
        assert row["n"] + row["n_unscored"] + len(calibrating) in (small.N, small.N + 1) and row["low"] <= row["value"] <= row["high"]
    fitted = by["m1", "choice", "clean", "all", "ece[held/platt]"]
    assert fitted["n_resamples"] == 50 and fitted["low_at_threshold"] >= fitted["low"]


def test_answers_that_calibrate_have_no_recalibrated_confidence_in_any_variant(rows):
    calibrating = {(r["dataset"], r["sample_id"]) for r in rows["recalibrated"] if r["is_calibration"]}
    assert len({r["variant"] for r in rows["recalibrated"]}) == 2
    for row in rows["recalibrated"]:
        assert ((row["dataset"], row["sample_id"]) in calibrating) == (row["confidence"] is None)
        assert (row["option"] is not None) == (row["dataset"] == "choice" and row["confidence"] is not None and row["estimator"] is None)


def test_scores_follow_from_the_answers_that_are_written(rows):
    """ECE of one cell again, from recalibrated.parquet and the samples."""
    world = [r for r in rows["recalibrated"] if (r["model"], r["dataset"], r["variant"], r["method"]) == ("m1", "choice", "clean", "platt")]
    read = [r for r in world if r["estimator"] is None and r["confidence"] is not None]
    truth = {r["sample_id"]: r["answer_index"] for r in small.World().choice}
    confidence = np.array([r["confidence"] for r in read])
    right = np.array([r["option"] == truth[r["sample_id"]] for r in read], dtype=float)
    place = np.clip(np.ceil(confidence * 15) - 1, 0, 14)
    expected = sum(abs((right - confidence)[place == b].sum()) for b in range(15)) / len(read)
    by = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in rows["scores"]}
    assert by["m1", "choice", "clean", "all", "ece[held/platt]"]["value"] == pytest.approx(expected)


def test_every_pair_that_can_be_compared(rows):
    here = [
        r
        for r in rows["calibrator_comparisons"]
        if (r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]) == ("m2", "open", "clean", "all", "ece")
        and r["setting"] == "held"
    ]
    pairs = {(r["a"], r["b"]) for r in here}
    assert pairs == {("raw", "temperature"), ("raw", "platt"), ("raw", "platt/perplexity"), ("temperature", "platt")}
    assert len(here) == 4
    for r in here:
        assert r["low"] <= r["difference"] <= r["high"] and r["p"] <= r["p_adjusted"] + 1e-9
        assert r["difference"] == pytest.approx(r["value_b"] - r["value_a"], abs=1e-9) and r["setting"] == "held"
        assert r["higher_is_better"] is False


def test_models_are_compared_after_recalibration_too(rows):
    found = {r["metric"]: r for r in rows["comparisons"] if r["dataset"] == "open" and r["slice"] == "all"}
    by = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in rows["scores"]}
    row = found["brier[held/platt]"]
    assert row["value_b"] == pytest.approx(by["m2", "open", "clean", "all", "brier[held/platt]"]["value"])
    assert found["ece[held/platt]"]["compared_by"] == "ece_debiased"
    assert 0 < row["p"] <= 1 and row["low"] <= row["difference"] <= row["high"]


def test_a_combination_has_scores_comparisons_and_answers(rows):
    by = {(r["model"], r["dataset"], r["variant"], r["slice"], r["metric"]): r for r in rows["scores"]}
    label = "brier[ensemble/logistic_regression/confidence+perplexity]"
    row = by["m2", "open", "clean", "all", label]
    assert row["n_resamples"] == 50 and row["low"] < row["value"] < row["high"]
    assert row["high"] - row["low"] > row["high_at_threshold"] - row["low_at_threshold"], "the interval includes the fit"
    answers = [r for r in rows["recalibrated"] if (r["model"], r["dataset"], r["variant"]) == ("m2", "open", "clean")]
    of = [r for r in answers if r["estimator"] == "confidence+perplexity"]
    fitted = {r["sample_id"] for r in of if r["is_calibration"]}
    read = {r["sample_id"] for r in of if r["confidence"] is not None}
    assert fitted and read and not fitted & read
    pairs = {(r["a"], r["b"]) for r in rows["calibrator_comparisons"] if r["setting"] == "ensemble" and r["metric"] == "brier"}
    assert pairs == {("raw", "logistic_regression"), ("raw", "logistic_regression/confidence+perplexity")}
    found = {r["metric"]: r for r in rows["comparisons"] if r["dataset"] == "open" and r["slice"] == "all"}
    assert found[label]["value_b"] == pytest.approx(row["value"]) and 0 < found[label]["p"] <= 1


def one(method, value, ends, drawn, own=None):
    of = Recalibration("held", method, "", np.zeros(1, dtype=bool), {}, [], 0)
    calibrating = None if method == "raw" else 12
    return MeasuredCalibrator(
        of, Measured(value, np.asarray(drawn), 50, 0, groups=20, calibrating=calibrating, null_test=own), Limits(*ends)
    )


def test_a_difference_of_calibration_errors():
    a, b = (one(m, v, ends, [0.0], own=lambda: (1.0, "")) for m, v, ends in (("raw", 0.3, (0.2, 0.4)), ("platt", 0.1, (0.0, 0.25))))
    found = difference(a, b, 0.95)
    assert found.low == pytest.approx(-0.2 - math.hypot(0.1, 0.1)) and found.high == pytest.approx(-0.2 + math.hypot(0.15, 0.1))


@pytest.mark.parametrize("without", [0, 1])
def test_of_calibration_errors_of_which_one_has_no_interval_the_difference_has_none(without):
    ends = [(0.2, 0.4), (0.0, 0.25)]
    ends[without] = (math.nan, math.nan)
    a, b = (one(m, v, of, [0.0], own=lambda: (1.0, "")) for m, v, of in zip(("raw", "platt"), (0.3, 0.1), ends, strict=True))
    assert difference(a, b, 0.95).why_none == "one of the two has no interval"


@pytest.mark.parametrize("drawn", [[[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], [[0.1, 0.2, 0.3], [0.2] * 3], [[0.1, math.nan], [0.3, 0.2]]])
def test_what_goes_the_other_way_or_does_not_vary_shares_nothing(drawn):
    values = (("raw", 0.3, (0.2, 0.4)), ("platt", 0.1, (0.0, 0.25)))
    a, b = (one(m, v, ends, of, own=lambda: (1.0, "")) for (m, v, ends), of in zip(values, drawn, strict=True))
    found = difference(a, b, 0.95)
    assert (found.low, found.high) == (pytest.approx(-0.2 - math.hypot(0.1, 0.1)), pytest.approx(-0.2 + math.hypot(0.15, 0.1)))


def test_two_that_go_together_entirely_differ_by_as_much_as_their_ends():
    drawn = np.linspace(0.1, 0.3, 9)
    a, b = (one(m, v, (v - 0.1, v + 0.1), drawn, own=lambda: (1.0, "")) for m, v in (("raw", 0.3), ("platt", 0.2)))
    found = difference(a, b, 0.95)
    assert found.why_none or found.high - found.low < 1e-6


def test_what_two_calibration_errors_share_is_not_counted_twice():
    drawn = np.random.default_rng(0).normal(0.3, 0.02, (2, 40))
    drawn[1] += 2 * drawn[0]
    values = (("raw", 0.3, (0.2, 0.4)), ("platt", 0.1, (0.0, 0.25)))
    a, b = (one(m, v, ends, of, own=lambda: (1.0, "")) for (m, v, ends), of in zip(values, drawn, strict=True))
    r = np.corrcoef(drawn)[0, 1]
    found = difference(a, b, 0.95)
    assert r > 0.5 and found.low == pytest.approx(-0.2 - math.sqrt(0.1**2 + 0.1**2 - 2 * r * 0.1 * 0.1))
    assert found.high == pytest.approx(-0.2 + math.sqrt(0.15**2 + 0.1**2 - 2 * r * 0.15 * 0.1))


def test_a_difference_of_sums_is_students():
    rng = np.random.default_rng(0)
    drawn = rng.normal(0.2, 0.02, 60), rng.normal(0.15, 0.02, 60)
    found = difference(one("raw", 0.2, (0, 0), drawn[0]), one("platt", 0.15, (0, 0), drawn[1]), 0.95)
    half = critical(0.95, 30) * standard_error(drawn[1] - drawn[0], 12)
    assert (found.low, found.high) == (pytest.approx(-0.05 - half), pytest.approx(-0.05 + half))


@pytest.mark.parametrize(("groups", "calibrating"), [(20, 5), (20, 4), (5, 20), (4, 20), (20, None)])
def test_a_difference_has_an_interval_with_five_groups_on_either_side_of_the_split(groups, calibrating):
    drawn = np.random.default_rng(0).normal(0.2, 0.02, (2, 60))
    a, b = (one(method, 0.2, (0, 0), of) for method, of in zip(("raw", "platt"), drawn, strict=True))
    a.measured.groups, b.measured.groups, b.measured.calibrating = groups, 20, calibrating
    found = difference(a, b, 0.95)
    if min(groups, calibrating or 20) >= 5:
        assert found.low < 0 < found.high and not found.why_none
    else:
        assert found.why_none == "4 groups on one side of the split: an interval needs 5"


def test_a_pair_counts_the_questions_that_both_have():
    more, fewer = one("raw", 0.3, (0.2, 0.4), [0.0]), one("platt", 0.1, (0.0, 0.25), [0.0])
    fewer.measured.n = 40
    column = SimpleNamespace(place=("d", "all", "ece", "clean", "calibrators", "m"), z=np.ones((2, 2)), higher_is_better=False)
    for pair in ([more, fewer], [fewer, more]):
        (row,) = Comparisons([], 0.95, "study")._pairs(column, "held", pair, np.full((2, 2), 0.5))
        assert row["n"] == 40 and (row["a"], row["b"]) == tuple(of.name for of in pair)


def test_p_values_are_corrected_over_all_columns_of_a_data_set_that_have_as_many_resamples():
    pair = [one("raw", 0.3, (0.2, 0.4), [0.0]), one("platt", 0.1, (0.0, 0.25), [0.0])]
    columns = []
    for dataset, largest, times in (("d", 0.5, 9), ("e", 0.5, 9), ("d", 0.5, 4), ("d", 2.0, 9)):
        place = (dataset, "all", "ece", "clean", "calibrators", "m")
        column = SimpleNamespace(place=place, z=np.ones((2, 2)), highest=np.full(times, largest), higher_is_better=False)
        columns.append((column, "held", pair))
    rows = Comparisons([], 0.95, "slice", columns).rows()
    assert sorted((row["dataset"], row["p_adjusted"]) for row in rows) == [("d", 1 / 5), ("d", 1.0), ("d", 1.0), ("e", 1 / 10)]


def test_a_column_has_as_many_resamples_and_groups_as_the_one_with_fewest():
    drawn = np.random.default_rng(0).normal(0.2, 0.02, (2, 60))
    a, b = one("raw", 0.2, (0, 0), drawn[0]), one("platt", 0.2, (0, 0), drawn[1][:40])
    cell, part = SimpleNamespace(samples=SimpleNamespace(name="d"), variant="clean", model="m"), SimpleNamespace(label="all")
    found = Comparisons([], 0.95, "study")
    for ones in ([a, b], [b, a]):
        column = found._column(cell, part, "ece", "held", False, ones)
        assert column is not None and len(column[0].highest) == 40
    b.measured.groups = MIN_GROUPS - 1
    assert found._column(cell, part, "ece", "held", False, [a, b]) is None
    assert found._column(cell, part, "ece", "held", False, []) is None
