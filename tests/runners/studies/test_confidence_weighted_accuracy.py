import csv

import numpy as np
import pytest
from scipy import stats

from qualm.runners.studies.confidence_weighted_accuracy import FIELDS, STUDIED, correlations, points, write_points

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


def test_against_scipy():
    found = points(rows(), PLUGINS)
    table = {r["metric"]: r for r in correlations(found, 0.95)}
    x = [p["value"] for p in found if p["metric"] == "ece@bins=10"]
    y = [p[STUDIED] for p in found if p["metric"] == "ece@bins=10"]
    row, fisher = table["ece@bins=10"], np.arctanh(np.corrcoef(x, y)[0, 1]) + np.array([-1, 1]) * 1.959964 / np.sqrt(3)
    assert row["n_models"] == 6
    assert row["pearson"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert (row["pearson_low"], row["pearson_high"]) == pytest.approx(tuple(np.tanh(fisher)), abs=1e-6)
    assert row["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_too_few_models_or_none_that_differ():
    assert next(correlations(points(rows(2), PLUGINS), 0.95))["pearson"] is None
    same = [p | {STUDIED: 0.5} for p in points(rows(), PLUGINS)]
    assert {r["spearman"] for r in correlations(same, 0.95)} == {None}
    three = next(correlations(points(rows(3), PLUGINS), 0.95))
    assert three["pearson"] is not None and three["pearson_low"] is None


def test_written_for_plots(tmp_path):
    write_points(points(rows(), PLUGINS), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open() as handle:
        read = list(csv.DictReader(handle))
    assert list(read[0]) == FIELDS and len(read) == 12
