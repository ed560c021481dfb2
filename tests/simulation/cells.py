"""Simulated answers as the product's cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.calibration.conformal_draws import redraw
from qualm.runners.scoring.calibration.conformal_sets import prediction_sets, threshold
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from tests.simulation.worlds import ALPHA, OPTIONS, World

LEVEL, RESAMPLES = 0.95, 200
ESTIMATOR, SETTING, SCORE = "u", "c", "lac"


def metrics(*names: str) -> list[Metric]:
    """Return metrics with their defaults, calibration errors over all rows."""
    return read_metrics([{"label": name, "plugin": name, "args": {"rows": "all"} if name == "ece" else {}} for name in names])


def samples_of(group: Any, options: int = 0) -> Samples:
    """Return samples in these groups, open-ended or with options."""
    n = len(group)
    columns: dict[str, pa.Array] = {f.name: pa.nulls(n, f.type) for f in SAMPLES}
    columns["sample_id"] = pa.array([str(i) for i in range(n)])
    columns["group"] = pa.array([f"g{g}" for g in group])
    columns["answerable"] = pa.array([True] * n)
    if options:
        columns["choices"] = pa.array([[str(k) for k in range(options)]] * n, pa.list_(pa.string()))
    return Samples("d", pa.table(columns, schema=SAMPLES))


def slice_of(of: Samples, seed: int, times: int = RESAMPLES) -> Slice:
    """Return all rows with their resamples."""
    return Slice("all", np.arange(of.n), Bootstrap(of.groups, times, seed, "d", "all"))


def cell_of(world: World, seed: int = 0, name: str = "m") -> Cell:
    """Return a world as a cell; with options, half of the groups calibrate."""
    of = samples_of(world.group, 0 if world.probs is None else OPTIONS)
    columns = dict(world.columns) | {"answerable": np.ones(of.n)}
    uncertainty = {ESTIMATOR: columns.pop("uncertainty")} if "uncertainty" in columns else {}
    settings = {}
    if world.probs is not None:
        settings[SETTING] = setting_of(world, of, calibration_rows(of.groups, 0.5, seed, "groups"))
    return Cell(name, of, "clean", columns, settings, uncertainty)


def setting_of(world: World, of: Samples, calibrates: Any) -> Setting:
    """Return the product's own sets."""
    assert world.probs is not None and world.answer is not None
    rows = np.arange(len(world.answer))
    scores = 1 - world.probs
    limit = threshold(scores[rows, world.answer][calibrates], ALPHA, "standard", of.groups[calibrates])
    inside, _ = prediction_sets(scores, world.probs, limit, "argmax")
    sets = {"covered": inside[rows, world.answer].astype(np.float64), "set_size": inside.sum(axis=1).astype(np.float64)}
    setting = {"alpha": ALPHA, "quantile": "standard", "empty_set": "argmax", "calibration": {"split": "groups"}}
    ref = {"label": SCORE, "plugin": SCORE, "args": {}}
    again = redraw(setting, ref, world.probs, world.probs, world.answer, calibrates.astype(np.float64), of)
    return Setting(calibrates.astype(np.float64), {SCORE: sets}, {SCORE: again})


def samples(n: int, groups: int, kinds: int = 1) -> Samples:
    """Return questions in groups of equal size, each group of one kind."""
    rows: Sequence[dict[str, Any]] = [
        {"sample_id": f"s{i}", "question": "?", "answerable": True, "group": f"g{i % groups}", "category": f"k{i % groups % kinds}"}
        for i in range(n)
    ]
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def model(of: Samples, rng: np.random.Generator, difficulty: Any, gain: float = 0.0) -> Cell:
    """Return answers whose chance to be right is the group's plus `gain`; confidence says half of it."""
    chance = np.clip(difficulty[of.groups] + gain, 0, 1)
    correct = (rng.random(of.n) < chance).astype(np.float64)
    confidence = np.clip((chance + rng.random(of.n)) / 2, 0, 1)
    answered = {"correct": correct, "confidence": confidence, "pred_is_idk": np.zeros(of.n), "gt_is_idk": np.zeros(of.n)}
    return Cell("m", of, "clean", {**answered, "answerable": np.ones(of.n)}, {}, {})
