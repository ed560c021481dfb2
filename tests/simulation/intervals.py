"""How often an interval of the product holds the truth, over many samples of one world."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.plugins.metrics.ece import null_test
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.conformal.draws import redraw
from qualm.runners.scoring.conformal.sets import prediction_sets, threshold
from qualm.runners.scoring.measuring.curves import reliability
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import read_metrics
from qualm.runners.scoring.paired_tests import compare
from tests.simulation import worlds
from tests.simulation.worlds import ALPHA, OPTIONS, World

DIFFERENCE = ", b - a"
DRAWS = 1500
"""Whose mean is the truth of a conformal metric: to a fortieth of a standard error."""
OF_PAIRS = 200
"""Resamples, and one exchange less, of two models."""
LEVEL, RESAMPLES, ESTIMATOR, SETTING, SCORE = 0.95, 300, "u", "c", "lac"
KINDS = {
    "answers": ["accuracy", "confidence_weighted_accuracy", "uncertainty_reflection_rate"],
    "ranking": [
        *("auroc", "auarc", "best_f1", "aurc", "e_aurc", "augrc", "prediction_rejection_ratio", "selective_accuracy"),
        *("average_precision", "fpr_at_tpr"),
    ],
    "change": ["hallucination_change_correlation"],
    "calibrated": ["ece", "brier", "nll", "ece_smooth", "ece_adaptive"],
    "options": ["coverage", "set_size", "uncertainty_aware_accuracy"],
}
ARGS: dict[str, dict[str, Any]] = {"hallucination_change_correlation": {"only_clean_correct": False}}
SIZES, GROUPS, VALUES = (100, 300, 1000), (10, 50, 200), (0.5, 0.9, 0.99)


@dataclass
class Held:
    """Of one metric in one kind of world."""

    metric: str
    n: int
    groups: int
    value: float
    samples: int
    printed: int
    """Samples with an interval."""
    held: int
    """...that holds the truth."""
    width: float
    tested: int = 0
    """Of differences: samples with a p-value."""
    rejected: int = 0
    """...of at most .05."""

    @property
    def share(self) -> float:
        return self.held / self.printed if self.printed else math.nan

    @property
    def error(self) -> float:
        """Standard error of the share, by the simulation's own chance."""
        p = (self.held + 1) / (self.printed + 2)
        return math.sqrt(p * (1 - p) / max(1, self.printed))


World_of = tuple[str, int, int, float, bool]
"""Kind of world, questions, groups, value, whether two models are compared."""


def cells() -> Iterator[World_of]:
    """All that is simulated."""
    for kind in KINDS:
        for n in SIZES:
            for groups in GROUPS:
                if groups <= n:
                    yield from ((kind, n, groups, value, paired) for value in VALUES for paired in (False, True))


def samples_of(n: int, group: Any) -> Samples:
    """As many samples, multiple choice, in these groups."""
    columns: dict[str, pa.Array] = {f.name: pa.nulls(n, f.type) for f in SAMPLES}
    columns["sample_id"] = pa.array([str(i) for i in range(n)])
    columns["group"] = pa.array([f"g{g}" for g in group])
    columns["choices"] = pa.array([[str(k) for k in range(OPTIONS)]] * n, pa.list_(pa.string()))
    columns["answerable"] = pa.array([True] * n)
    return Samples("d", pa.table(columns, schema=SAMPLES))


def cell_of(world: World, seed: int) -> Cell:
    """A cell of the product."""
    samples = samples_of(len(world.group), world.group)
    columns = dict(world.columns) | {"answerable": np.ones(samples.n)}
    uncertainty = {ESTIMATOR: columns.pop("uncertainty")} if "uncertainty" in columns else {}
    clean = {ESTIMATOR: world.clean["clean_uncertainty"]} if world.clean else {}
    columns |= {"clean_correct": world.clean["clean_correct"]} if world.clean else {}
    settings = {}
    if world.probs is not None and world.answer is not None:
        calibrates = calibration_rows(samples.groups, 0.5, seed, "groups")
        settings[SETTING] = setting_of(world, samples, calibrates)
    return Cell("m", samples, "clean", columns, settings, uncertainty, clean)


def setting_of(world: World, samples: Samples, calibrates: Any) -> Setting:
    """The product's own sets."""
    assert world.probs is not None and world.answer is not None
    rows = np.arange(len(world.answer))
    scores = 1 - world.probs
    limit = threshold(scores[rows, world.answer][calibrates], ALPHA, "standard", samples.groups[calibrates])
    inside, _ = prediction_sets(scores, world.probs, limit, "argmax")
    sets = {"covered": inside[rows, world.answer].astype(np.float64), "set_size": inside.sum(axis=1).astype(np.float64)}
    setting = {"alpha": ALPHA, "quantile": "standard", "empty_set": "argmax", "calibration": {"split": "groups"}}
    ref = {"label": SCORE, "plugin": SCORE, "args": {}}
    again = redraw(setting, ref, world.probs, world.probs, world.answer, calibrates.astype(np.float64), samples)
    return Setting(calibrates.astype(np.float64), {SCORE: sets}, {SCORE: again})


def simulate(kind: str, n: int, groups: int, value: float, samples: int, seed: int = 0, of: Sequence[str] | None = None) -> list[Held]:
    """Draw `samples` worlds; of every metric, or those named, how often its interval holds the truth."""
    names = KINDS[kind] if of is None else list(of)
    metrics = read_metrics([{"label": name, "plugin": name, "args": ARGS.get(name, {})} for name in names])
    limits: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    truth: dict[str, float] = {}
    for k in range(samples):
        rng = np.random.default_rng([seed, k, n, groups, int(1000 * value), list(KINDS).index(kind)])
        world = getattr(worlds, kind)(n, groups, value, rng)
        cell, truth = cell_of(world, k), world.truth
        part = Slice("all", np.arange(n), Bootstrap(cell.samples.groups, RESAMPLES, k, "d", "all"))
        values = [(label, one) for label, one in evaluate(metrics, cell, part) if "mean]" not in label]
        for (label, _), ends in zip(values, intervals([one for _, one in values], LEVEL, part.bootstrap.groups), strict=True):
            limits[label.partition("[")[0]].append((ends.low, ends.high))
    if kind == "options":
        truth = of_options(n, groups, value)
    return [_held(name, n, groups, value, limits[name], truth[name]) for name in names]


@cache
def of_options(n: int, groups: int, value: float) -> dict[str, float]:
    """Conformal truths: the means of the definition's own numbers over DRAWS of calibration and test questions alike."""
    drawn: dict[str, list[float]] = {}
    for k in range(DRAWS):
        world = worlds.options(n, groups, value, np.random.default_rng([9, k, n, groups]))
        for name, number in worlds.split_conformal(world, calibration_rows(world.group, 0.5, k, "groups")).items():
            drawn.setdefault(name, []).append(number)
    return {name: float(np.mean(numbers)) for name, numbers in drawn.items()}


def differences(kind: str, n: int, groups: int, value: float, samples: int, seed: int = 0, of: Sequence[str] | None = None) -> list[Held]:
    """The same of two models on the same questions, alike but for chance and correlated: of every metric how often the interval of the
    difference holds 0, and how often the paired test finds a difference at .05."""
    names = KINDS[kind] if of is None else list(of)
    metrics = read_metrics([{"label": name, "plugin": name, "args": ARGS.get(name, {})} for name in names])
    limits: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    p: dict[str, list[float]] = {name: [] for name in names}
    for k in range(samples):
        common = [seed, k, n, groups, int(1000 * value), list(KINDS).index(kind)]
        a, b = (cell_of(getattr(worlds, kind)(n, groups, value, worlds.Twin(common, own)), k) for own in (1, 2))
        part = Slice("all", np.arange(n), Bootstrap(a.samples.groups, OF_PAIRS, k, "d", "all"))
        for test in compare(metrics, a, b, part, LEVEL, OF_PAIRS - 1, k):
            if "mean]" not in test.metric:
                limits[test.metric.partition("[")[0]].append((test.low, test.high))
                p[test.metric.partition("[")[0]].append(test.p)
    held = [_held(name, n, groups, value, limits[name], 0.0) for name in names]
    for one in held:
        found = np.array(p[one.metric])
        one.tested, one.rejected = int((~np.isnan(found)).sum()), int((found <= 1 - LEVEL + 1e-9).sum())
    return [replace(one, metric=f"{one.metric}{DIFFERENCE}") for one in held]


def calibration_null(n: int, groups: int, samples: int, off: float = 0.0) -> tuple[float, float]:
    """Answers that are `off` calibrated: how often the test of calibration says so at .05, and the share of bins within their bars."""
    rejected, bins = [], []
    for k in range(samples):
        world = worlds.calibrated(n, groups, 1 - off, np.random.default_rng([8, k, n, groups]))
        confidence, correct = world.columns["confidence"], world.columns["correct"]
        rejected.append(null_test(confidence, correct, np.zeros(n), world.group)[0] <= 0.05)
        bins += [low - 1e-9 <= right <= high + 1e-9 for *_, right, _, low, high in reliability(confidence, correct, world.group)]
    return float(np.mean(rejected)), float(np.mean(bins))


def nearly_all_right(n: int, groups: int, samples: int, off: float) -> dict[str, float]:
    """Confidences in [.98, 1], `off` above the chance to be right, so that often all answers are right: how often the interval of `ece`
    holds `off`, in all samples and in those, and the share of those."""
    (metric,) = read_metrics([{"label": "ece", "plugin": "ece", "args": {}}])
    held, right = [], []
    for k in range(samples):
        rng = np.random.default_rng([10, k, n, groups, int(10_000 * off)])
        group = worlds.grouped(n, groups, rng)
        confidence = 0.98 + 0.02 * norm.cdf(worlds.latent(group, rng))
        correct = (norm.cdf(worlds.latent(group, rng)) < confidence - off).astype(np.float64)
        cell = cell_of(World(group, {"correct": correct, "confidence": confidence}, {}), k)
        ((_, one),) = evaluate([metric], cell, Slice("all", np.arange(n), Bootstrap(cell.samples.groups, 50, k, "d", "all")))
        (ends,) = intervals([one], LEVEL, groups)
        held.append(ends.low - 1e-9 <= off <= ends.high + 1e-9)
        right.append(bool(correct.all()))
    of_right = [one for one, all_right in zip(held, right, strict=True) if all_right]
    return {
        "held": float(np.mean(held)),
        "where all are right": float(np.mean(of_right)) if of_right else math.nan,
        "all right": np.mean(right).item(),
    }


def conformal_null(studies: int, n: int = 400) -> dict[str, float]:
    """Two models that are alike, on the same groups: shares of studies that call them different, and whose coverage leaves its band."""
    metrics = read_metrics([{"label": name, "plugin": name, "args": {}} for name in KINDS["options"]])
    found: dict[str, list[float]] = {}
    for k in range(studies):
        first, second = (worlds.options(n, n, 0.5, np.random.default_rng([seed, k])) for seed in (8, 9))
        a, b = cell_of(first, k), cell_of(second, k)
        part = Slice("all", np.arange(n), Bootstrap(a.samples.groups, 200, k, "d", "all"))
        for test in compare(metrics, a, b, part, LEVEL, 199, k):
            if test.metric.endswith(f"/{SCORE}]"):
                found.setdefault(f"rejected: {test.metric}", []).append(test.p <= 0.05)
                found.setdefault(f"held: {test.metric}", []).append(test.low <= 0 <= test.high)
        ((_, one),) = [pair for pair in evaluate(metrics[:1], a, part) if pair[0].endswith(f"/{SCORE}]")]
        assert one.band is not None
        found.setdefault("below the band", []).append(one.value < one.band.low)
        found.setdefault("above the band", []).append(one.value > one.band.high)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _held(name: str, n: int, groups: int, value: float, limits: list[tuple[float, float]], truth: float) -> Held:
    ends = np.array(limits)
    printed = ends[~np.isnan(ends).any(axis=1)]
    held = (printed[:, 0] <= truth + 1e-9) & (printed[:, 1] >= truth - 1e-9)
    width = float((printed[:, 1] - printed[:, 0]).mean()) if len(printed) else math.nan
    return Held(name, n, groups, value, len(ends), len(printed), int(held.sum()), width)
