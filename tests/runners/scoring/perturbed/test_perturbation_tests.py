"""Tests over the grid of perturbations, against exact tests and against what whole groups demand."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest, pointbiserialr

from qualm.registry.plugins import rule
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.perturbed import perturbation_tests
from qualm.runners.scoring.perturbed.perturbation_tests import effects, independence, with_a_test
from qualm.runners.stages.score import make_slices

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


def found(one, permutations=20_000):
    (part,) = make_slices(one.samples, [], 20, 3)
    return {e.metric: e for e in effects(with_a_test(read_metrics(METRICS)), one, part, permutations, 5)}


def drawn(n=60, seed=1):
    rng = np.random.default_rng(seed)
    clean, correct, was = rng.normal(size=n), rng.random(n) < 0.6, rng.random(n) < 0.8
    return clean + rng.normal(0.25, 1, n), clean, correct, was


def test_only_metrics_that_name_a_test():
    assert [m.label for m in with_a_test(read_metrics(METRICS))] == ["urr", "rate", "hcc"]
    assert {rule.get("metrics", n).declares["TEST"] for n in rule.names("metrics") if "TEST" in rule.get("metrics", n).declares} == {
        "exchange",
        "independence",
    }


def test_reflection_is_a_sign_test_and_hallucination_mcnemar_s():
    perturbed, clean, correct, was = drawn()
    results = found(cell(perturbed, clean, correct, was))
    up = int((perturbed > clean).sum())
    assert results["urr[u]"].p == pytest.approx(binomtest(up, 60).pvalue, abs=0.01)
    assert results["urr[u]"].value == up / 60 and results["urr[u]"].reference == pytest.approx(1 - up / 60)
    lost, won = int((was & ~correct).sum()), int((~was & correct).sum())
    assert results["rate"].p == pytest.approx(binomtest(lost, lost + won).pvalue, abs=0.01)
    assert (results["rate"].value, results["rate"].reference) == (pytest.approx(lost / 60), pytest.approx(won / 60))


def test_correlation_against_the_exact_order_of_magnitude_of_pearson_s():
    perturbed, clean, correct, was = drawn(120)
    became_wrong = was & ~correct
    perturbed = perturbed + 0.5 * became_wrong
    result = found(cell(perturbed, clean, correct, was))["hcc[u]"]
    expected = pointbiserialr(became_wrong, perturbed - clean)
    assert result.value == pytest.approx(expected.statistic) and result.reference == 0.0
    assert result.p == pytest.approx(expected.pvalue, rel=0.25, abs=0.004)


def test_every_deal_of_a_small_sample():
    """Against all orders of five, by hand."""
    import itertools

    x, y = np.array([0.1, 0.9, 0.3, 0.7, 0.2]), np.array([0.0, 1, 0, 1, 0])
    observed = abs(np.corrcoef(x, y)[0, 1])
    exact = np.mean([abs(np.corrcoef(x, p)[0, 1]) >= observed - 1e-9 for p in itertools.permutations(y)])
    assert [t.p for t in independence(np.column_stack([x, -x]), y, np.arange(5), 20_000, 1)] == pytest.approx([exact, exact], abs=0.01)


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
    results = found(cell(clean, clean, was, was), 500)
    assert results["urr[u]"].p == results["rate"].p == 1.0
    assert np.isnan(results["hcc[u]"].value) and np.isnan(results["hcc[u]"].p)


def test_groups_that_cannot_be_dealt_out():
    x, y = np.arange(6.0), np.array([0.0, 1, 0, 1, 1, 0])
    assert np.isnan(independence(x[:, None], y, np.array([0, 1, 1, 2, 2, 2]), 100, 1)[0].p)  # three groups of three sizes
    assert np.isnan(independence(x[:, None], np.ones(6), np.arange(6), 100, 1)[0].p)


def test_under_the_null_few_are_small():
    rng = np.random.default_rng(9)
    p = [independence(rng.normal(size=(30, 1)), (rng.random(30) < 0.3).astype(float), np.arange(30), 200, k)[0].p for k in range(200)]
    assert 0.01 < np.mean(np.array(p) <= 0.05) < 0.1


def test_the_smallest_and_the_largest_p_that_can_be(monkeypatch):
    """Where every deal is as extreme p is 1; where none is it is 1 / (1 + deals), whatever the pieces they are drawn in."""
    order = np.arange(40.0)
    for block in (1 << 24, 3 * 40, 40, 1):
        monkeypatch.setattr(perturbation_tests, "BLOCK", block)
        assert independence(order[:, None], order, np.arange(40), 10, 1)[0].p == pytest.approx(1 / 11, rel=1e-12)
        pair = independence(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]), np.arange(2), 10, 1)
        assert pair[0].p == 1.0


def test_groups_of_a_size_that_is_alone_stay_where_they_are_and_the_others_are_dealt():
    x, y = np.arange(5.0)[:, None], np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    p = independence(x, y, np.array([0, 1, 1, 2, 2]), 200, 1)[0].p
    assert 0.3 < p <= 1.0, "two groups of two: half of all deals change nothing"


def pairs_and_singles(slope, seed=4):
    """80 groups, of one or two rows; x and y are larger in those of two, and go together within either size as `slope` says."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(80), np.tile([1, 2], 40))
    large = np.tile([1, 2], 40)[group] - 1.0
    y = (large + rng.normal(size=80)[group] > 0.5).astype(float)
    return (3 * large + slope * y + rng.normal(size=len(group)))[:, None], y, group


def test_what_the_sizes_of_groups_make_of_a_correlation_is_no_evidence():
    x, y, group = pairs_and_singles(0.0)
    (by_size,) = independence(x, y, group, 999, 1)
    assert np.corrcoef(x[:, 0], y)[0, 1] > 0.3 and by_size.p > 0.05
    assert np.abs(by_size.chance).mean() == pytest.approx(
        np.sqrt(2 / np.pi), abs=0.1
    )  # as of a normal number of spread 1: nothing held in common
    (both,) = independence(pairs_and_singles(1.5)[0], y, group, 999, 1)
    assert both.p == 0.001 and both.size > 4  # far beyond chance, beside the tests of other estimators too


def test_what_contradicts_a_correlation_is_no_evidence_for_it():
    """Within groups of one size x falls with y; over all it rises, since both are larger in groups of two."""
    x, y, group = pairs_and_singles(-1.0)
    assert np.corrcoef(x[:, 0], y)[0, 1] > 0
    (against,) = independence(x, y, group, 999, 1)
    assert against.p == 1.0 and against.size == 0


def test_no_unit_and_no_skew_moves_a_p():
    x, y = np.arange(30.0)[:, None] ** 2, np.array([1.0] * 25 + [0.0] * 5)
    p = independence(x, y, np.arange(30), 300, 2)[0].p
    assert 0 < p < 0.05
    assert independence(x * 1e-9, y, np.arange(30), 300, 2)[0].p == p == independence(x, 1 - y, np.arange(30), 300, 2)[0].p


def test_without_deals_there_is_no_p():
    assert np.isnan(independence(np.arange(6.0)[:, None], np.arange(6.0), np.arange(6), 0, 1)[0].p)


def test_permutations_are_those_that_were_published():
    """They follow from seed, data set and slice as UTF-8, in any language."""
    one = cell(*drawn(6))
    part = Slice("category=Tür", np.arange(6), Bootstrap(np.arange(6), 10, 3, "d", "all"))
    text = '["independence", 7, "d", "category=Tür"]'
    assert perturbation_tests._entropy(7, one, part) == int.from_bytes(hashlib.sha256(text.encode()).digest())
