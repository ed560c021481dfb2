import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from qualm.registry.plugins import rule
from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.reporting.text import counted
from qualm.runners.runtime.stage import StageError
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.evaluate import Measured, about, evaluate, intervals, read_metrics, tasks_of
from qualm.runners.stages.score import make_slices
from qualm.runners.studies.perturbation import mean_over


def measured(value, resampled):
    return Measured(value, np.array(resampled, dtype=float), 5, 0)


def ends(one, level, groups):
    (found,) = intervals([one], level, groups)
    return found.low, found.high


def test_students_t_around_the_value():
    draws = np.random.default_rng(0).normal(size=1000)
    half = stats.t.ppf(0.95, 9) * draws.std() * np.sqrt(10 / 9)
    assert ends(measured(2.0, draws), 0.9, 10) == pytest.approx((2 - half, 2 + half))


def test_undefined_resamples_are_left_out_and_counted():
    one = measured(0.5, [0, 1, np.nan, 0, 1])
    assert one.undefined == 1
    half = stats.t.ppf(0.95, 9) * 0.5 * np.sqrt(10 / 9)
    assert ends(one, 0.9, 10) == pytest.approx((0.5 - half, 0.5 + half))


@pytest.mark.parametrize(
    ("value", "resampled", "groups", "why"),
    [
        (np.nan, [1, 2], 5, ""),
        (1.0, [1, np.nan, np.nan], 5, "undefined in 2 of 3 resamples"),
        (1.0, [0, 1], 4, "4 scored groups: an interval needs 5"),
        (1.0, [1, 1], 5, "every resample gives the same value"),
        (1.0, [], 5, "no resamples"),
    ],
)
def test_no_interval(value, resampled, groups, why):
    assert np.isnan(ends(measured(value, resampled), 0.9, groups)).all()
    assert intervals([measured(value, resampled)], 0.9, groups)[0].why_none == why


def test_the_groups_that_are_scored_count_and_not_those_of_the_slice():
    one = measured(0.5, [0.4, 0.6])
    one.groups = 3
    assert intervals([one], 0.9, 40)[0].why_none == "3 scored groups: an interval needs 5"


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("mce", "the largest of many gaps"),
        ("ece_debiased", "resamples repeat groups"),
        ("coverage_at_risk", "the threshold is chosen on the answers"),
    ],
)
def test_a_metric_without_an_interval_says_why_in_its_row(plugin, why):
    rng = np.random.default_rng(0)
    rows = [{"sample_id": f"s{i}", "group": f"g{i}", "question": "?", "answerable": True} for i in range(80)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    cell = Cell("m", samples, "clean", {"correct": rng.integers(0, 2, 80) * 1.0, "confidence": rng.random(80)}, {}, {})
    metrics = read_metrics([{"label": plugin, "plugin": plugin, "args": {"risk": 0.6} if plugin == "coverage_at_risk" else {}}])
    ((_, one),) = evaluate(metrics, cell, make_slices(samples, [], 50, 7)[0])
    (found,) = intervals([one], 0.95, 80)
    row = about(one, found, 0.95)
    assert one.value > 0 and len(one.resampled) == 50
    assert np.isnan([found.low, found.high]).all() and row["interval"] is None and row["level"] is None
    assert row["why_no_interval"].startswith(why)
    assert f"; no interval: {why}" in counted(row | {"n": one.n, "n_unscored": 0})
    assert intervals([mean_over([one, one])], 0.95, 80)[0].why_none == row["why_no_interval"], "nor has a mean over variants"


def test_nothing_to_measure():
    assert intervals([], 0.9, 3) == []


def test_a_metric_that_reads_no_such_column(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text("def bad(nonsense, weights):\n    return nonsense\n")
    monkeypatch.setattr(rule, "_files", lambda kind: {"bad": (tmp_path / "bad.py", "bad")})
    with pytest.raises(StageError, match=r"bad reads nonsense, weights; expected columns of answerable, clean_correct.*then weights"):
        read_metrics([{"label": "bad", "plugin": "bad", "args": {}}])


def test_a_cell_that_knows_why_nothing_is_scored_says_so_of_every_metric_without_rows():
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": ""} for i in range(3)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": np.full(3, np.nan), "confidence": np.array([0.5, 0.5, 0.5])}
    (part,) = make_slices(samples, [], 10, 3)
    metrics = read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}])
    for why in ("nothing is right or wrong here", ""):
        (task,), _ = tasks_of(metrics, Cell("m", samples, "blur", columns, {}, {}, why_unscored=why), part)
        assert (task.measured.n, task.measured.why) == (0, why)
    scored = Cell("m", samples, "blur", columns | {"correct": np.ones(3)}, {}, {}, why_unscored="is not asked")
    (task,), _ = tasks_of(metrics, scored, part)
    assert (task.measured.n, task.measured.why) == (3, "")
