"""Tests over the grid of perturbations, against exact tests and against copies of rows."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest, pointbiserialr

from qualm.registry.plugins import registry
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.slices import make_slices
from qualm.runners.scoring.perturbation_tests import effects, metrics_with_effect_test

HCC = {"only_clean_correct": False, "right_from": 0.5}
METRICS = [
    {"label": "urr", "plugin": "uncertainty_reflection_rate", "args": {}},
    {"label": "rate", "plugin": "hallucination_rate", "args": HCC},
    {"label": "hcc", "plugin": "hallucination_change_correlation", "args": HCC},
    {"label": "ties", "plugin": "uncertainty_tie_rate", "args": {}},
]


def cell(uncertainty, clean_uncertainty, correct, clean_correct, groups=None):
    n = len(correct)
    rows = [
        {"sample_id": f"s{i}", "question": "?", "answerable": True, "group": f"g{groups[i]}" if groups is not None else ""}
        for i in range(n)
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": correct, "clean_correct": clean_correct}
    columns = {name: np.asarray(values, dtype=float) for name, values in columns.items()}
    return Cell("m", samples, "blur", columns, {}, {"u": np.asarray(uncertainty, float)}, {"u": np.asarray(clean_uncertainty, float)})


def found(one):
    (part,) = make_slices(one.samples, [], 200, 3)
    return {e.metric: e for e in effects(metrics_with_effect_test(read_metrics(METRICS)), one, part)}


def drawn(n=60, seed=1):
    rng = np.random.default_rng(seed)
    clean, correct, was = rng.normal(size=n), rng.random(n) < 0.6, rng.random(n) < 0.8
    return clean + rng.normal(0.25, 1, n), clean, correct, was


def test_only_metrics_that_name_a_test():
    assert [m.label for m in metrics_with_effect_test(read_metrics(METRICS))] == ["urr", "rate", "hcc"]
    assert {
        registry.get("metrics", n).declares["test"] for n in registry.names("metrics") if "test" in registry.get("metrics", n).declares
    } == {
        "exchange",
        "independence",
    }


def test_reflection_is_a_sign_test_and_hallucination_mcnemar_s():
    perturbed, clean, correct, was = drawn()
    results = found(cell(perturbed, clean, correct, was))
    up = int((perturbed > clean).sum())
    assert results["urr[u]"].p == pytest.approx(binomtest(up, 60).pvalue, rel=0.6)
    assert results["urr[u]"].value == up / 60 and results["urr[u]"].reference == pytest.approx(1 - up / 60)
    lost, won = int((was & ~correct).sum()), int((~was & correct).sum())
    assert results["rate"].p == pytest.approx(binomtest(lost, lost + won).pvalue, rel=0.6)
    assert (results["rate"].value, results["rate"].reference) == (pytest.approx(lost / 60), pytest.approx(won / 60))


def test_correlation_against_the_exact_order_of_magnitude_of_pearson_s():
    perturbed, clean, correct, was = drawn(120)
    became_wrong = was & ~correct
    perturbed = perturbed + 0.5 * became_wrong
    result = found(cell(perturbed, clean, correct, was))["hcc[u]"]
    expected = pointbiserialr(became_wrong, perturbed - clean)
    assert result.value == pytest.approx(expected.statistic) and result.reference == 0.0
    assert result.p == pytest.approx(expected.pvalue, rel=0.25, abs=0.004)


def test_copies_of_a_row_are_no_evidence():
    perturbed, clean, correct, was = drawn(40, seed=3)
    alone = found(cell(perturbed, clean, correct, was))
    four = [np.repeat(column, 4) for column in (perturbed, clean, correct, was)]
    together = found(cell(*four, groups=np.repeat(np.arange(40), 4)))
    for metric in alone:
        assert together[metric].p == pytest.approx(alone[metric].p, abs=0.015)
        assert together[metric].value == pytest.approx(alone[metric].value)


def test_nothing_happened():
    _, clean, _, was = drawn()
    results = found(cell(clean, clean, was, was))
    assert results["urr[u]"].p == results["rate"].p == 1.0
    assert np.isnan(results["hcc[u]"].value) and np.isnan(results["hcc[u]"].p)
