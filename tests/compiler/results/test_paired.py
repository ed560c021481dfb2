from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from qualm.compiler.results import paired
from qualm.compiler.results.paired import align, as_json, differences, mcnemar_p
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.paired_tests import compare
from tests.simulation import worlds
from tests.simulation.cells import cell_of, metrics


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemars_exact_p_by_the_binomial(only_a, only_b):
    n, least = only_a + only_b, min(only_a, only_b)
    expected = min(1.0, 2 * binom.cdf(least, n, 0.5)) if n else 1.0
    assert mcnemar_p(only_a, only_b) == pytest.approx(expected) == mcnemar_p(only_b, only_a)


def difference(p, delta=0.1, higher=True):
    row = {"dataset": "d", "slice": "all", "metric": "m", "value_a": 0.5, "value_b": 0.6, "difference": delta, "low": 0.01, "high": 0.2}
    return as_json(row | {"n": 10, "higher_is_better": higher, "p": p, "p_adjusted": p})


@pytest.mark.parametrize("p, apart", [(0.001, True), (0.049, True), (0.05, False), (0.5, False), (None, None)])
def test_the_corrected_p_decides_and_not_the_interval(p, apart):
    found = difference(p)
    assert found["significant"] is apart and found["low"] == 0.01 and (found["a"], found["b"], found["delta"]) == (0.5, 0.6, 0.1)


@pytest.mark.parametrize(
    "delta, higher, better",
    [(0.1, True, "b"), (0.1, False, "a"), (-0.1, True, "a"), (-0.1, False, "b"), (0.1, None, None), (None, True, None)],
)
def test_the_better_side_follows_from_the_metrics_direction(delta, higher, better):
    assert difference(0.01, delta, higher)["better"] == better
    assert difference(0.2, delta, higher)["better"] is None


def test_conformal_metrics_are_compared_over_draws_of_the_calibration_questions():
    a, b = (cell_of(worlds.options(120, 120, 0.5, np.random.default_rng(seed)), 3) for seed in (1, 2))
    one, other, dropped = align(a, b)
    found = differences(one, other, metrics("set_size"), 200, 0.95, 3)
    part = Slice("all", np.arange(120), Bootstrap(a.samples.groups, 200, 3, "d", "all"))
    expected = compare(metrics("set_size"), a, b, part, 0.95)
    names = ("metric", "low", "high", "p")
    assert dropped == 0 and [[d[name] for name in names] for d, _ in found] == [[getattr(t, name) for name in names] for t in expected]
    fewer = align(replace(a, samples=type(a.samples)("d", a.samples.table.slice(0, 100))), b)[0]
    assert {len(of.calibration_scores) for s in fewer.settings.values() for of in s.redraws.values()} == {100}


def cells(name, a, b, settings=None):
    rows = [{"sample_id": f"s{i}", "group": f"g{i}", "question": "?", "answerable": True} for i in range(len(a))]
    samples = Samples(name, pa.Table.from_pylist(rows, schema=SAMPLES))
    return tuple(Cell("m", samples, "clean", {"correct": np.array(side, dtype=float)}, settings or {}, {}) for side in (a, b))


def test_right_and_wrong_answers_are_counted_where_both_have_a_verdict():
    none, accuracy = np.nan, metrics("accuracy")
    counted = cells("x", [1, 1, 1, 0, 0, 1, none, 1], [1, 1, 0, 1, 0, 0, 1, none])
    apart = cells("y", [1] * 8, [0] * 8)
    left_out = [cells("half", [1, 0.5], [1, 1]), cells("other half", [1, 1], [0.5, 0]), cells("none", [none, 1], [0, none])]
    x, y = paired.mcnemar_tests([counted, *left_out, apart], accuracy)
    assert x.as_json() == {
        "dataset": "x", "metric": "accuracy", "n": 6, "both_right": 2, "only_a": 2, "only_b": 1, "both_wrong": 1, "p": 1.0, "p_holm": 1.0,
    }  # fmt: skip
    assert (y.dataset, y.both_right, y.only_a, y.only_b, y.both_wrong) == ("y", 0, 8, 0, 0)
    assert (y.p, y.p_holm) == pytest.approx((2 / 256, 4 / 256)) and paired.mcnemar_tests(left_out, accuracy) == []


def test_mcnemars_test_is_over_the_rows_of_the_accuracy_above_it():
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2, 40) * 1.0 for _ in range(2))
    a[3], b[7] = np.nan, np.nan
    pair = cells("d", a, b, {"ours": Setting((np.arange(40) < 15) * 1.0)})
    rows = {d["metric"]: d for d, _ in differences(*pair, metrics("accuracy", "ece"), 20, 0.95, 3)}
    found = {t.metric: t for t in paired.mcnemar_tests([pair], metrics("accuracy", "ece"))}
    assert set(found) == {"accuracy", "accuracy[ours]"}
    for label, test in found.items():
        assert test.n == rows[label]["n"] and (test.only_b - test.only_a) / test.n == pytest.approx(rows[label]["difference"])
    assert (found["accuracy"].n, found["accuracy[ours]"].n) == (38, 25) and paired.mcnemar_tests([pair], metrics("ece")) == []


def test_cells_are_joined_by_question_and_a_gap_of_one_is_one_of_both():
    whole = cell_of(worlds.options(12, 12, 0.5, np.random.default_rng(1)), 3)
    turned = np.array([5, 3, 11, 0, 7, 1, 2])
    part = replace(
        whole,
        samples=type(whole.samples)("d", whole.samples.table.take(turned)),
        columns={name: values[turned].astype(float) for name, values in whole.columns.items()},
        settings={},
        uncertainties={"u": np.arange(7.0)},
        recalibrations=[],
    )
    part.columns["correct"][[1, 3]] = np.nan  # of the questions 3 and 0
    mine = replace(whole, uncertainties={"u": np.where(np.arange(12) == 5, np.nan, 100.0), "own": np.ones(12)})
    one, other, dropped = align(mine, part)
    assert (
        dropped == 5
        and one.samples is other.samples
        and one.samples.ids.to_pylist() == [whole.samples.ids.to_pylist()[i] for i in sorted(turned)]
    )
    gaps = [np.isnan(side.columns["correct"]).tolist() for side in (one, other)]
    assert gaps == [[False] * 7, [i in (0, 3) for i in sorted(turned)]], "each keeps its own scored share"
    assert np.isnan(one.uncertainties["u"]).tolist() == [i == 5 for i in sorted(turned)]
    ((found,), accuracy) = (
        paired.mcnemar_tests([(one, other)], metrics("accuracy")),
        differences(one, other, metrics("accuracy"), 20, 0.95, 3)[0][0],
    )
    assert found.n == accuracy["n"] == 5 and (accuracy["scored_share_a"], accuracy["scored_share_b"]) == (1.0, pytest.approx(5 / 7))
    assert other.uncertainties["u"].tolist()[:3] == [3, 5, 6] and one.uncertainties["own"].tolist() == [1] * 7
    assert not np.isnan(mine.columns["correct"]).any(), "what was given is as it was"
    assert align(part, mine)[2] == 5
