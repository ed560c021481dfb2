import csv

import numpy as np
import pytest
from scipy import stats

from qualm.runners.results.confidence_weighted_accuracy import (
    ACCURACY,
    FIELDS,
    STUDIED,
    claims,
    correlation_difference_interval,
    correlations,
    points,
    write_points,
)

PLUGINS = {"cwa": STUDIED, "lave_idk_accuracy": "lave_idk_accuracy", "ece@bins=10": "ece", "f1_idk": "f1_idk"}


def rows(n=6):
    rng = np.random.default_rng(0)
    made = []
    for k in range(n):
        for name in PLUGINS:
            same = {"model": f"m{k}", "dataset": "d", "variant": "clean", "slice": "all", "metric": name, "value": float(rng.random())}
            made += [same, same | {"variant": "blur", "value": 9.0}, same | {"slice": "category=x", "value": None}]
    return made


def test_points_are_clean_defined_and_of_the_metrics_studied():
    found = points(rows(), PLUGINS)
    assert {p["metric"] for p in found} == {"lave_idk_accuracy", "ece@bins=10"}
    assert {p["slice"] for p in found} == {"all"} and len(found) == 12
    assert all(p["value"] < 1 for p in found)
    assert [p["metric"] for p in found] == ["ece@bins=10"] * 6 + ["lave_idk_accuracy"] * 6
    assert [p["model"] for p in found] == [f"m{k}" for k in range(6)] * 2


def test_against_scipy():
    found = points(rows(), PLUGINS)
    table = {r["metric"]: r for r in correlations(found, 0.95) if r["studied"] == STUDIED}
    x = [p["value"] for p in found if p["metric"] == "ece@bins=10"]
    y = [p[STUDIED] for p in found if p["metric"] == "ece@bins=10"]
    row, fisher = table["ece@bins=10"], np.arctanh(np.corrcoef(x, y)[0, 1]) + np.array([-1, 1]) * 1.959964 / np.sqrt(3)
    assert row["n_models"] == 6
    assert row["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert (row["pearson_low"], row["pearson_high"]) == pytest.approx(tuple(np.tanh(fisher)), abs=1e-6)
    assert row["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_models_of_equal_answers_are_tied_whatever_their_last_digits():
    """A model, the same with refusals that never come, and two others; then three that are all one."""
    x, y = [0.3, 0.1 + 0.2, 0.5, 0.8], [0.6, 0.6, 0.7, 0.9]
    some = [
        {"model": f"m{k}", "dataset": "d", "variant": "clean", "slice": "all", "metric": name, "value": value}
        for name, values in (("cwa", y), ("ece@bins=10", x))
        for k, value in enumerate(values)
    ]
    (row,) = (r for r in correlations(points(some, PLUGINS), 0.95) if r["studied"] == STUDIED)
    assert row["spearman"] == pytest.approx(1.0)
    same = [r | ({"value": 0.3 + (r["model"] == "m1") * 1e-16} if r["metric"] != "cwa" else {}) for r in some]
    (row,) = (r for r in correlations(points(same, PLUGINS), 0.95) if r["studied"] == STUDIED)
    assert row["pearson"] is None and row["spearman"] is None and row["n_models"] == 4


def test_accuracy_is_set_against_calibration_too():
    found = points(rows(), PLUGINS)
    of = {name: [p["value"] for p in found if p["metric"] == name] for name in ("ece@bins=10", ACCURACY)}
    (row,) = (r for r in correlations(found, 0.95) if r["studied"] == ACCURACY)
    assert row["metric"] == "ece@bins=10" and row["n_models"] == 6
    assert row["pearson"] == pytest.approx(np.corrcoef(of["ece@bins=10"], of[ACCURACY])[0, 1])


def test_limits_of_a_difference_are_zous():
    """The worked example of two correlations with one variable in common: .396 and .179, .088 between, 66 rows; -.093 to .517."""
    one, two = ({"pearson": r, "pearson_low": np.tanh(np.arctanh(r) - 1.959964 / np.sqrt(63)),
                 "pearson_high": np.tanh(np.arctanh(r) + 1.959964 / np.sqrt(63))} for r in (0.396, 0.179))  # fmt: skip
    assert correlation_difference_interval(one, two, 0.088) == pytest.approx((-0.093, 0.517), abs=1e-3)
    strong, other = {"pearson": 0.8, "pearson_low": 0.7, "pearson_high": 0.86}, {"pearson": 0.6, "pearson_low": 0.45, "pearson_high": 0.72}
    joint = (0.46 * -0.49 + 0.343) / (0.36 * 0.64)  # by hand, of correlations that are large
    low, high = (0.1**2 + 0.12**2 - 0.024 * joint) ** 0.5, (0.06**2 + 0.15**2 - 0.018 * joint) ** 0.5
    assert correlation_difference_interval(strong, other, 0.7) == pytest.approx((0.2 - low, 0.2 + high), abs=1e-12)


@pytest.mark.slow
def test_limits_of_a_difference_hold_as_often_as_they_say():
    """Over simulated models: accuracy and its weighted form go with calibration equally, so 0 is inside 95 times in a hundred."""
    rng, covers = np.random.default_rng(1), []
    for _ in range(400):
        shared = rng.normal(size=30)
        noise = rng.normal(size=(3, 30))
        values = {"ece": -shared + noise[0], ACCURACY: shared + noise[1], STUDIED: shared + noise[2]}
        same = {"dataset": "d", "slice": "all"}
        table = [
            same | {"metric": m, "model": str(k), "value": float(values[m][k]), STUDIED: float(values[STUDIED][k])}
            for m in ("ece", ACCURACY)
            for k in range(30)
        ]
        by_key = {(r["metric"], r["studied"]): r for r in correlations(table, 0.95)}
        low, high = correlation_difference_interval(by_key["ece", STUDIED], by_key["ece", ACCURACY], by_key[ACCURACY, STUDIED]["pearson"])
        covers.append(low <= 0 <= high)
    assert 0.92 <= np.mean(covers) <= 0.98


def correlation(metric, studied, pearson, n=6, **more):
    row = {"dataset": "d", "slice": "all", "metric": metric, "studied": studied, "n_models": n, "pearson": pearson}
    return row | {"pearson_low": None if n < 4 else pearson - 0.1, "pearson_high": None if n < 4 else pearson + 0.05} | more


def test_the_claim_of_figure_4b_in_words():
    three = [correlation("ece", STUDIED, -0.9), correlation("ece", ACCURACY, -0.5), correlation(ACCURACY, STUDIED, 0.5)]
    ((dataset, text),) = claims(three)
    assert dataset == "d" and text.startswith(
        "ece, correlation over 6 models with confidence_weighted_accuracy -0.90 (-1.00 to -0.85), "
        "lave_idk_accuracy -0.50 (-0.60 to -0.45); difference -0.40 ("
    )
    assert text.endswith(": significant")
    near = [correlation("ece", STUDIED, -0.55), correlation("ece", ACCURACY, -0.5), three[2]]
    assert next(claims(near))[1].endswith(": no significant difference"), "0 lies within"
    few = [correlation("ece", STUDIED, -0.9, 3), correlation("ece", ACCURACY, -0.5, 3), correlation(ACCURACY, STUDIED, 0.5, 3)]
    assert next(claims(few))[1].endswith("lave_idk_accuracy -0.50; too few models for an interval")
    for gone in ([*three[:2], three[2] | {"pearson": None}], [three[0], correlation("ece", ACCURACY, -0.5, 5), three[2]]):
        assert next(claims(gone))[1].endswith("lave_idk_accuracy -0.50 (-0.60 to -0.45); too few models for an interval")
    two = [correlation("ece", s, -0.9, 2) | {"pearson": None} for s in (STUDIED, ACCURACY)] + [correlation(ACCURACY, STUDIED, 0.5, 2)]
    assert next(claims(two))[1] == "ece: too few models (2; a correlation needs 3)"
    flat = [three[0] | {"pearson": None}, *three[1:]]
    assert next(claims(flat))[1] == "ece: no correlation over 6 models, since one of the metrics does not vary"
    assert list(claims([*three[:1], three[2]])) == [] == list(claims([r | {"slice": "category=x"} for r in three]))


def test_too_few_models_or_none_that_differ():
    assert next(correlations(points(rows(2), PLUGINS), 0.95))["pearson"] is None
    same = [p | {STUDIED: 0.5} for p in points(rows(), PLUGINS)]
    assert {r["spearman"] for r in correlations(same, 0.95) if r["studied"] == STUDIED} == {None}
    three = next(correlations(points(rows(3), PLUGINS), 0.95))
    assert three["pearson"] is not None and three["pearson_low"] is None


def test_values_from_0_to_1_vary():
    some = [{"dataset": "d", "slice": "all", "metric": "ece", "model": str(k), "value": k / 4, STUDIED: 1 - k / 4} for k in range(5)]
    row = next(correlations(some, 0.95))
    assert row["pearson"] == pytest.approx(-1) == row["spearman"] and row["n_models"] == 5


def test_written_for_plots(tmp_path):
    write_points(points(rows(), PLUGINS), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open() as handle:
        read = list(csv.DictReader(handle))
    assert list(read[0]) == FIELDS and len(read) == 12
