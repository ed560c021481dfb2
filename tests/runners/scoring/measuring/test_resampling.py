"""Resampled values against a dataset written out row by row, as often as each was drawn."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.calibration.conformal_draws import redraw
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.resampling import resample, resample_at_own_threshold
from qualm.runners.scoring.measuring.slices import make_slices

ROWS, GROUPS, TIMES = 60, 20, 25


@pytest.fixture
def tasks():
    rng = np.random.default_rng(3)
    rows = [{"sample_id": f"s{i}", "group": f"g{i % GROUPS:02}", "question": "?", "answerable": True} for i in range(ROWS)]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    columns = {"correct": rng.integers(0, 2, ROWS) * 1.0, "confidence": rng.random(ROWS)}
    (part,) = make_slices(samples, [], TIMES, 7)
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in ("accuracy", "auroc")])
    cell = Cell("m", samples, "clean", columns, {}, {"u": rng.random(ROWS)})
    found, _ = tasks_of(metrics, cell, part)
    return found, cell, part.bootstrap


def test_a_resample_is_the_data_set_with_each_group_as_often_as_it_was_drawn(tasks):
    found, cell, bootstrap = tasks
    resample(found, bootstrap)
    counts = np.concatenate([np.asarray(block) for block in bootstrap.blocks()]).astype(int)
    drawn = [np.repeat(np.arange(ROWS), row) for row in counts]
    right, uncertainty = cell.columns["correct"], cell.uncertainties["u"]
    by_name = {task.metric.label: task.measured.resampled for task in found}
    assert by_name["accuracy"] == pytest.approx([right[rows].mean() for rows in drawn])
    assert by_name["auroc"] == pytest.approx([roc_auc_score(1 - right[rows], uncertainty[rows]) for rows in drawn])


def test_the_jackknife_is_the_data_set_without_each_group(tasks):
    found, cell, bootstrap = tasks
    resample(found, bootstrap)
    right, uncertainty, group = cell.columns["correct"], cell.uncertainties["u"], cell.samples.groups
    kept = [group != g for g in np.unique(group)]
    by_name = {task.metric.label: task.measured.deleted for task in found}
    assert by_name["accuracy"] == pytest.approx([right[rows].mean() for rows in kept])
    assert by_name["auroc"] == pytest.approx([roc_auc_score(1 - right[rows], uncertainty[rows]) for rows in kept])


def test_without_sets_or_fits_of_its_own_a_threshold_makes_no_difference(tasks):
    found, _, bootstrap = tasks
    resample(found, bootstrap)
    resample_at_own_threshold(found, bootstrap)
    assert all(np.array_equal(task.measured.given, task.measured.resampled) for task in found)


def threshold_by_hand(scores, copies):
    """Of scores that are of these copies of groups; each by itself if all differ."""
    order, mass, units = (
        np.argsort(scores),
        np.cumsum([1 / (copies == copy).sum() for copy in copies[np.argsort(scores)]]),
        len(set(copies)),
    )
    return np.append(scores[order][mass >= (units + 1) * 0.8 - 1e-9], np.inf)[0]


@pytest.mark.parametrize("per", [None, "category"])
@pytest.mark.parametrize("row_by_row", [True, False])
@pytest.mark.parametrize("split", ["rows", "groups"])
def test_coverage_of_a_resample_is_that_of_the_sets_of_its_own_thresholds(per, row_by_row, split):
    """One threshold for all questions or one per category; by sums over single rows, or of a metric that says nothing of them."""
    rng = np.random.default_rng(3)
    category, truth = np.arange(ROWS) // GROUPS % 2, rng.integers(0, 3, ROWS)
    rows = [
        {"sample_id": f"s{i}", "group": f"g{i % GROUPS:02}", "question": "?", "answerable": True, "category": "ab"[category[i]]}
        | {"choices": ["x", "y", "z"], "answer_index": int(truth[i])}
        for i in range(ROWS)
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    probs = rng.dirichlet([1, 1, 1], ROWS)
    scores, calibrates = 1 - probs[np.arange(ROWS), truth], (np.arange(ROWS) % GROUPS % 2) * 1.0
    told = {"alpha": 0.2, "quantile": "standard", "empty_set": "empty", "per": per, "calibration": {"split": split}}
    again = redraw(told, {"label": "lac", "plugin": "lac", "args": {}}, probs, probs, truth, calibrates, samples)
    sets = {"covered": np.ones(ROWS), "set_size": np.ones(ROWS)}
    (metric,) = read_metrics([{"label": "coverage", "plugin": "coverage", "args": {}}])
    metric = replace(metric, plugin=replace(metric.plugin, declares=metric.plugin.declares | {"row_by_row": row_by_row}))
    (part,) = make_slices(samples, [], TIMES, 7)
    columns = {"correct": np.ones(ROWS), "n_options": np.full(ROWS, 3.0)}
    cell = Cell("m", samples, "clean", columns, {"x": Setting(calibrates, {"lac": sets}, {"lac": again})}, {})
    tasks, _ = tasks_of([metric], cell, part)
    resample(tasks, part.bootstrap)
    expected = []
    for counts in np.concatenate([np.asarray(block) for block in part.bootstrap.blocks()]).astype(int):
        drawn, covered = np.repeat(np.arange(ROWS), counts), np.zeros(0)
        copies = 1000 * (drawn % GROUPS) + np.concatenate([np.arange(count) for count in counts])
        copies = copies if split == "groups" else np.arange(len(drawn))
        for of in [drawn >= 0] if per is None else [category[drawn] == p for p in range(2)]:
            fit, test = of & (calibrates[drawn] == 1), of & (calibrates[drawn] == 0)
            covered = np.append(covered, scores[drawn[test]] <= threshold_by_hand(scores[drawn[fit]], copies[fit]) + 1e-12)
        expected.append(covered.mean())
    assert tasks[0].measured.resampled == pytest.approx(expected) and len(set(expected)) > 5
