"""Values at thresholds of each resample against sets that are made anew, row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Recorder
from qualm.runners.scoring.calibration.conformal_draws import NODES, Redraw
from qualm.runners.scoring.calibration.conformal_parts import QuestionParts
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.at_thresholds import resample_at_thresholds
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.measuring.resampling import resample_conformal
from qualm.runners.scoring.measuring.slices import make_slices

N, TIMES = 90, 60
NAMES = ("coverage", "set_size", "uncertainty_aware_accuracy")


@pytest.fixture
def cell():
    rng = np.random.default_rng(5)
    width = [2 + i % 3 for i in range(N)]
    rows = [
        {"sample_id": f"s{i:02}", "group": f"g{i % 45:02}", "question": "?", "answerable": True, "category": f"c{i % 2}"}
        | {"choices": list("abcd")[:k], "answer_index": i % k}
        for i, k in enumerate(width)
    ]
    samples = Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))
    calibrates = (np.arange(N) % 45 >= 25) * 1.0
    enters = np.where(np.arange(4) < np.array(width)[:, None], rng.random((N, 4)), np.inf)
    enters[::7, 0] = -np.inf
    own = np.where(calibrates == 1, enters[np.arange(N), samples.truth], np.nan)
    redraw = Redraw(own, enters, samples.truth, np.arange(N), 0.2, "standard", 0.0, kept=(0.8,))
    sets = {name: of for name, of in redraw.sets(np.arange(N), 0.8).items()}
    columns = {"correct": rng.integers(0, 2, N) * 1.0, "confidence": rng.random(N), "n_options": np.array(width, dtype=np.float64)}
    return Cell("m", samples, "clean", columns, {"half": Setting(calibrates, {"lac": sets}, {"lac": redraw})}, {})


def tasks(cell, part, names=NAMES):
    found, _ = tasks_of(read_metrics([{"label": name, "plugin": name, "args": {}} for name in names]), cell, part)
    return found


def slices(cell):
    return make_slices(cell.samples, ["category"], TIMES, 7)


def test_each_resample_has_the_sets_of_its_own_threshold(cell):
    redraw = cell.settings["half"].redraws["lac"]
    for part in slices(cell):
        found = tasks(cell, part)
        resample_at_thresholds(found, part.bootstrap)
        (steps,) = redraw.steps(part.bootstrap.whole)
        assert 5 < len(steps.limits) <= NODES
        counts = np.concatenate([block.counts for block in part.bootstrap.blocks()]).astype(int)
        test = cell.settings["half"].is_calibration == 0
        for b, limit in enumerate(steps.limits[steps.which]):
            drawn = np.repeat(part.rows, counts[b][part.bootstrap.group])
            rows = drawn[test[drawn]]
            inside = redraw.enters[rows] <= limit
            size = inside.sum(axis=1).mean()
            right, root = cell.columns["correct"][rows].mean(), np.sqrt(cell.columns["n_options"][rows]).mean()
            expected = [inside[np.arange(len(rows)), cell.samples.truth[rows]].mean(), size, right * root / size]
            assert [task.measured.resampled[b] for task in found] == pytest.approx(expected, rel=1e-12)


def test_no_value_depends_on_the_other_metrics(cell):
    (part, *_) = slices(cell)
    together = tasks(cell, part)
    resample_at_thresholds(together, part.bootstrap)
    for name, task in zip(NAMES, together, strict=True):
        (alone,) = tasks(cell, part, [name])
        resample_at_thresholds([alone], part.bootstrap)
        assert alone.measured.resampled.tobytes() == task.measured.resampled.tobytes()


def test_sums_of_other_numbers_than_whole_ones(cell):
    """A tenth of every size is no whole number: it is summed at each threshold anew."""
    (part, *_) = slices(cell)
    (whole,) = tasks(cell, part, ["set_size"])
    (tenth,) = tasks(cell, part, ["set_size"])

    def of_tenths(set_size, is_calibration, weights):
        return whole.metric.function(set_size / 10, is_calibration, weights)

    weights = Recorder(len(tenth.rows))
    of_tenths(*tenth.arrays, weights)
    (recorded,) = weights.recorded()
    tenth = replace(tenth, metric=replace(tenth.metric, function=of_tenths), recorded=recorded)
    resample_at_thresholds([whole, tenth], part.bootstrap)
    assert tenth.measured.resampled == pytest.approx(whole.measured.resampled / 10, rel=1e-12)


def test_each_part_of_the_questions_has_a_threshold_of_its_own(cell):
    """Within categories, whose thresholds differ, against every resample's rows and sets written out."""
    setting = cell.settings["half"]
    of_row = np.arange(N) % 2
    parts = QuestionParts("category", ("c0", "c1"), of_row, np.where(np.isinf(setting.redraws["lac"].enters), -1, of_row[:, None]))
    redraw = replace(setting.redraws["lac"], kept=(), parts=parts)
    setting.redraws["lac"] = redraw
    for part in slices(cell):
        found = tasks(cell, part)
        resample_conformal(found, part.bootstrap)
        limits = redraw.thresholds(part.bootstrap.whole)
        assert len(np.unique(limits[:, 0])) > 3 and (limits[:, 0] != limits[:, 1]).any()
        counts = np.concatenate([block.counts for block in part.bootstrap.blocks()]).astype(int)
        test = setting.is_calibration == 0
        for b, of_parts in enumerate(limits):
            drawn = np.repeat(part.rows, counts[b][part.bootstrap.group])
            rows = drawn[test[drawn]]
            inside = redraw.enters[rows] <= np.minimum(of_parts, 1e300)[of_row[rows]][:, None]
            size = inside.sum(axis=1).mean()
            right, root = cell.columns["correct"][rows].mean(), np.sqrt(cell.columns["n_options"][rows]).mean()
            expected = [inside[np.arange(len(rows)), cell.samples.truth[rows]].mean(), size, right * root / size]
            assert [task.measured.resampled[b] for task in found] == pytest.approx(expected, rel=1e-12)
