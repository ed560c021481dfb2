from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.reporting.text import counted
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.evaluate import evaluate, evaluate_apart, tasks_of
from qualm.runners.scoring.measuring.intervals import about, intervals
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.stages.score import make_slices
from qualm.runners.studies.perturbation import mean_over
from tests.simulation import worlds
from tests.simulation.intervals import cell_of


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


def test_a_cell_that_knows_why_nothing_is_scored_says_so_of_every_metric_without_rows():
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": ""} for i in range(3)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": np.full(3, np.nan), "confidence": np.array([0.5, 0.5, 0.5])}
    (part,) = make_slices(samples, [], 10, 3)
    metrics = read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}])
    for why in ("nothing is right or wrong here", ""):
        (task,), _ = tasks_of(metrics, Cell("m", samples, "blur", columns, {}, {}, why_unscored=why), part)
        assert (task.measured.n, task.measured.why, len(task.measured.resampled)) == (0, why or "no `correct`", 0)
    scored = Cell("m", samples, "blur", columns | {"correct": np.ones(3)}, {}, {}, why_unscored="is not asked")
    (task,), _ = tasks_of(metrics, scored, part)
    assert (task.measured.n, task.measured.why) == (3, "")


@pytest.mark.parametrize(("n", "why"), [(10, "no `correct`"), (11, "")])
def test_a_tenth_of_the_answers_unscored_is_said(n, why):
    rows = [{"sample_id": f"s{i}", "question": "?", "answerable": True, "group": ""} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    cell = Cell("m", samples, "clean", {"correct": np.r_[np.nan, np.ones(n - 1)]}, {}, {})
    (task,), _ = tasks_of(read_metrics([{"label": "accuracy", "plugin": "accuracy", "args": {}}]), cell, make_slices(samples, [], 5, 3)[0])
    assert (task.measured.n, task.measured.n_unscored, task.measured.why_unscored) == (n - 1, 1, why)


def test_what_rests_on_a_threshold_is_resampled_at_the_samples_own_too():
    cell = cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1)
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("coverage", "accuracy")])
    for values in (evaluate(metrics, cell, part), evaluate_apart(metrics, cell, part)):
        assert {label.partition("[")[0] for label, _ in values} == {"coverage", "accuracy"}
        for label, one in values:
            assert (one.given is not None) == label.startswith("coverage") and len(one.resampled) == 20
            assert one.given is None or (one.given != one.resampled).any()


def with_confidence(cell):
    rng = np.random.default_rng(3)
    n = cell.samples.n
    return replace(cell, columns=cell.columns | {"correct": rng.integers(0, 2, n) * 1.0, "confidence": rng.random(n)})


def test_no_value_depends_on_the_other_metrics():
    """Not in its last bit: a metric more or less in the spec leaves the scores of all others as they are."""
    cell = with_confidence(cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1))
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("coverage", "accuracy", "set_size", "ece")])
    together = dict(evaluate_apart(metrics, cell, part))
    alone = {label: one for metric in metrics for label, one in evaluate_apart([metric], cell, part)}
    assert list(alone) == list(together) and len(alone) >= 6
    for label, one in alone.items():
        assert one.resampled.tobytes() == together[label].resampled.tobytes()


def test_settings_that_differ_in_what_calibrates_alone_share_values_over_all_rows():
    cell = with_confidence(cell_of(worlds.options(60, 60, 0.5, np.random.default_rng(8)), 1))
    (half,) = cell.settings.values()
    cell = replace(cell, settings={"half": half, "same": half, "other": replace(half, is_calibration=1 - half.is_calibration)})
    part = make_slices(cell.samples, [], 20, 3)[0]
    metrics = read_metrics([{"label": rows, "plugin": "ece", "args": {"rows": rows}} for rows in ("all", "test")])
    values = dict(evaluate_apart(metrics, cell, part))
    assert values["all[half]"] is values["all[other]"]
    assert values["test[half]"] is values["test[same]"] and values["test[half]"].value != values["test[other]"].value


def test_settings_that_calibrate_on_the_same_rows_are_measured_once():
    n = 40
    rows = [{"sample_id": f"s{i}", "group": f"g{i}", "question": "?", "answerable": True} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    rng = np.random.default_rng(0)
    columns = {"correct": rng.integers(0, 2, n) * 1.0, "confidence": rng.random(n)}
    first, second = (np.arange(n) < 20) * 1.0, (np.arange(n) >= 20) * 1.0
    uncertainties = {"a": rng.random(n), "b": rng.random(n)}
    cell = Cell("m", samples, "clean", columns, {"x": Setting(first), "y": Setting(second), "z": Setting(first.copy())}, uncertainties)
    (part,) = make_slices(samples, [], 20, 7)
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("accuracy", "auroc")])
    values = dict(evaluate(metrics, cell, part))
    assert set(values) == {"accuracy", "accuracy[x]", "accuracy[y]", "accuracy[z]", "auroc[a]", "auroc[b]"}
    assert values["accuracy"].value == columns["correct"].mean() and values["accuracy"].n == n, "as without conformal sets"
    assert values["accuracy[x]"] is values["accuracy[z]"] and values["accuracy[x]"] is not values["accuracy[y]"]
    assert values["accuracy[x]"].value == columns["correct"][20:].mean() and values["accuracy[y]"].value == columns["correct"][:20].mean()
    assert values["auroc[a]"].value != values["auroc[b]"].value


@pytest.mark.parametrize(
    ("wrong", "rare"),
    [
        ([0, 2, 4, 6, 8], ""),
        ([0, 2, 4, 6], "4 answers of the rarer kind, in 4 groups: an interval needs 5 in 2"),
        ([0, 1, 2, 3, 4], ""),
        ([0, 1, 2], "3 answers of the rarer kind, in 2 groups: an interval needs 5 in 2"),
        ([0, 1, 80, 81, 82], "5 answers of the rarer kind, in 1 groups: an interval needs 5 in 2"),
    ],
)
def test_a_metric_of_two_kinds_of_answers_needs_five_of_each_in_two_groups(wrong, rare):
    n = 100
    groups = np.where(np.arange(n) < 80, np.arange(n) // 2, 0)
    rows = [{"sample_id": f"s{i}", "group": f"g{groups[i]}", "question": "?", "answerable": True} for i in range(n)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    correct = np.ones(n)
    correct[wrong] = 0
    cell = Cell("m", samples, "clean", {"correct": correct}, {}, {"u": np.random.default_rng(0).random(n)})
    metrics = read_metrics([{"label": "auroc", "plugin": "auroc", "args": {}}])
    (task,), _ = tasks_of(metrics, cell, make_slices(samples, [], 10, 3)[0])
    assert task.measured.rare == rare and task.measured.kinds == 2


def test_what_says_no_target_has_no_band_beside_it():
    """`coverage` has one, since its conformal setting promises something; a metric of one's own over the same sets need not."""
    world = worlds.options(60, 60, 0.5, np.random.default_rng(8))
    (metric,) = read_metrics([{"label": "coverage", "plugin": "coverage", "args": {}}])
    declares = {name: value for name, value in metric.plugin.declares.items() if name != "TARGET"}
    silent = replace(metric, plugin=replace(metric.plugin, declares=declares))
    cell = cell_of(world, 1)
    part = make_slices(cell.samples, [], 10, 3)[0]
    (told,), (untold,) = (tasks_of([one], cell, part)[0] for one in (metric, silent))
    assert told.measured.band.target == 0.9 and told.measured.band.low < 0.9 < told.measured.band.high
    assert untold.measured.band is None and untold.measured.value == told.measured.value
