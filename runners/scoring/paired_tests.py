"""Two models on the same questions: the difference of every metric with its interval and p-value.

Both sides are measured on the same rows and in the same resamples, so what they share (easy questions, one image with many
questions) cancels out. The two sides are laid out as one cell of twice the rows, groups of b behind those of a; a side, a
resample of a side and an exchange of answers are then nothing but weights, and every metric takes part unchanged,
calibration errors and rankings too, which are no means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qualm.registry.plugins import rule
from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.contracts.metrics import lacking
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import BLOCK
from qualm.runners.scoring.cells import Cell, Setting
from qualm.runners.scoring.families import Evidence, standardised
from qualm.runners.scoring.limits import apart
from qualm.runners.scoring.measuring.evaluate import tasks_of
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Measured, MetricTask, Slice, mean_of
from qualm.runners.scoring.measuring.metrics import Metric
from qualm.runners.scoring.measuring.resampling import resample
from qualm.runners.scoring.power import fewest
from qualm.runners.scoring.recalibration.drawing import First

SLACK = 1e-12


@dataclass(frozen=True)
class Test:
    """One metric of b against a on one dataset and slice."""

    metric: str
    value_a: float
    value_b: float
    low: float
    high: float
    p: float
    n: int
    higher_is_better: bool | None
    share_a: float = np.nan
    """Scored share of a by itself; the test is over the rows that both are scored on."""
    share_b: float = np.nan
    evidence: Evidence = field(default=Evidence(np.nan), repr=False, compare=False)

    @property
    def difference(self) -> float:
        return self.value_b - self.value_a


def compare(metrics: Sequence[Metric], a: Cell, b: Cell, part: Slice, level: float, permutations: int, seed: int) -> list[Test]:
    """Every metric that applies to both cells, over the rows that both are scored on.

    The interval is Student's t over the slice's own resamples of groups (`qualm.runners.scoring.limits`), none of a metric that
    has none itself. The p-value is
    that of a permutation test: if the two models were alike, exchanging their answers within any group would change
    nothing, so the difference is set against those after random exchanges (all of them where there are few groups);
    p = (1 + as large or larger ones) / (1 + exchanges), two-sided. Groups are exchanged whole since their rows are not
    independent. Every test of a data set sees the same random exchanges, whatever its metric, slice or pair, so that tests can be
    corrected for what they share. Undefined (NaN) with fewer than two groups, or where a side has no value.
    """
    both, shares = side_by_side(a, b), [scored_shares(metrics, cell, part) for cell in (a, b)]
    rows = np.concatenate([part.rows, part.rows + a.samples.n])
    tasks, labels = tasks_of(metrics, both, replace(part, rows=rows))
    live = [task for task in tasks if task.measured.n]
    for task in live:
        _rank(task, a.samples.n)
    together = fewest(permutations)
    exchanges = {times: Exchanges(part, a.samples, times, together, seed) for times in (permutations, together)}
    # Metrics that sum columns are cheap, and get all exchanges; the others get as few as still show significance.
    for only_sums, times in ((True, permutations), (False, together)):
        chosen = [task for task in live if task.weights.only_sums == only_sums and task.refit is None]
        if chosen:
            drawn_too = any(task.redraw is not None for task in chosen)
            resample(chosen, _sides(part, exchanges[times], a.samples, together, seed, drawn_too))
    anew: dict[int, list[MetricTask]] = {}
    for task in live:
        if task.refit is not None:
            anew.setdefault(task.refit.refits, []).append(task)
    for refits, chosen in anew.items():
        resample(chosen, _sides(fewer(part, refits), exchanges[together], a.samples, together, seed, True))
    better = {m.label: rule.get("metrics", m.function.__name__).declares.get("HIGHER_IS_BETTER") for m in metrics}
    tests = []
    for label, of in labels:
        refit = of[0].refit
        times = permutations if of[0].weights.only_sums and refit is None else together
        drawn = part if refit is None else fewer(part, refit.refits)
        test = _test(label, of, drawn, exchanges[times], level, better[_owner(label, better)])
        tests.append(replace(test, share_a=shares[0].get(label, np.nan), share_b=shares[1].get(label, np.nan)))
    return tests


def scored_shares(metrics: Sequence[Metric], cell: Cell, part: Slice) -> dict[str, float]:
    """Return the scored share of every label of the metrics on one cell."""
    return {label: mean_of([task.measured for task in of]).scored_share for label, of in tasks_of(metrics, cell, part)[1]}


def _rank(task: MetricTask, half: int) -> None:
    """Replace what a metric reads the order of by ranks within each side, in (0, 1].

    Neither side's value moves; but exchanged answers of two models would else stand in the order of the models' scales, and where few
    answers are wrong equally good models would be called different (`different_scales` in tests/simulation/comparisons.py).
    """
    names = task.metric.plugin.declares.get("ORDINAL", ())
    places = [i for i, name in enumerate(task.metric.plugin.reads[:-1]) if name in names]
    # Sums do not look at the order; and a refit works on scores, whose scale it needs.
    if not places or task.refit is not None or task.weights.only_sums:
        return
    columns = np.stack([task.arrays[i] for i in places])
    for side in (task.of_cell < half, task.of_cell >= half):
        if side.any():
            _, place, counts = np.unique(columns[:, side], return_inverse=True, return_counts=True)
            ranks = (np.cumsum(counts) - (counts - 1) / 2) / counts.sum()
            # Mid-ranks: ties stay ties.
            columns[:, side] = ranks[place].reshape(len(places), -1)
    for i, column in zip(places, columns, strict=True):
        task.arrays[i] = column


def fewer(part: Slice, refits: int) -> Slice:
    """A slice with as many resamples as a recalibrated confidence is fitted anew in."""
    return replace(part, bootstrap=First(part.bootstrap, refits))


def _sides(part: Slice, exchanges: Exchanges, samples: Samples, together: int, seed: int, drawn_too: bool) -> Sides:
    """The weights of both sides; of `drawn_too` also those of the whole data set, where what calibrates lies outside of a slice."""
    sides = Sides(part, exchanges)
    if drawn_too and part.bootstrap.whole is not part.bootstrap:
        every = Slice("", np.arange(samples.n), part.bootstrap.whole)
        sides.whole = Sides(every, Exchanges(every, samples, exchanges.times, together, seed, listed=False))
    return sides


def _owner(label: str, labels: dict[str, Any]) -> str:
    """The metric of a label that may have brackets behind it."""
    return label if label in labels else label[: label.rindex("[")]


def _test(label: str, of: list[MetricTask], part: Slice, exchanges: Exchanges, level: float, better: bool | None) -> Test:
    measured = mean_of([task.measured for task in of])
    # Rows of both sides were counted; the test is over half of them.
    n = measured.n // 2
    values = measured.resampled
    if not len(values):
        return Test(label, np.nan, np.nan, np.nan, np.nan, np.nan, n, better)
    value_a, value_b = float(values[0]), float(values[1])
    drawn = 2 * part.bootstrap.times
    # In the order in which `Sides` hands out weights: a, b, resamples of a, of b, exchanges seen from a, from b.
    boot, swapped = values[2 : 2 + drawn].reshape(2, -1), values[2 + drawn :].reshape(2, -1)
    difference = value_b - value_a
    why = "one side has no value" if np.isnan(difference) else ""
    of_difference = Measured(difference, boot[1] - boot[0], n, 0, why, groups=measured.groups, calibrating=measured.calibrating)
    of_difference.why_no_interval, of_difference.bounds = measured.why_no_interval, apart(measured.bounds)
    ends = intervals([of_difference], level, part.bootstrap.groups)[0]
    p, evidence = _p_value(difference, swapped[1] - swapped[0], part.bootstrap.groups), Evidence(np.nan)
    if not np.isnan(p):
        evidence = Evidence(p, *standardised(difference, swapped[1] - swapped[0], exchanges.shared, SLACK))
    return Test(label, value_a, value_b, ends.low, ends.high, p, n, better, evidence=evidence)


def _p_value(difference: float, exchanged: Floats, groups: int) -> float:
    defined = exchanged[~np.isnan(exchanged)]
    if np.isnan(difference) or groups < 2 or not len(defined):
        return float("nan")
    as_large = int((np.abs(defined) >= abs(difference) - SLACK).sum())
    # The identity is among the exchanges, so p is their share and needs no 1 added; the difference is at least as large as itself.
    if len(exchanged) == 2**groups:  # every exchange there is, the one that changes nothing among them
        return max(1, as_large) / len(defined)
    return (1 + as_large) / (1 + len(defined))


@lru_cache(maxsize=2)
def _drawn(dataset: str, seed: int, groups: int, times: int) -> NDArray[np.uint8]:
    """Random exchanges of a data set as bits, (groups, times / 8)."""
    text = json.dumps(["exchange", seed, dataset], ensure_ascii=False)
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))
    # As bits: a thousand exchanges of a hundred thousand groups fit into 13 MB.
    return rng.integers(0, 256, (groups, -(-times // 8)), dtype=np.uint8)


class Exchanges:
    """Which groups of a slice keep their side: a random choice for the whole data set, seen on the slice.

    All 2^groups of them where that is no more than was asked for.
    """

    def __init__(self, part: Slice, samples: Samples, times: int, together: int, seed: int, listed: bool = True) -> None:
        """With `listed` all there are are taken one by one, where they are few."""
        codes = np.unique(samples.groups, return_inverse=True)[1]
        # Drawn for the data set and picked by group, so that a group is exchanged in the same rounds whatever the slice.
        bits = _drawn(samples.name, seed, int(codes.max(initial=-1)) + 1, times)[np.unique(codes[part.rows])]
        self._stays = np.unpackbits(bits, axis=1, count=times) if bits.size else np.zeros((len(bits), times), dtype=np.uint8)
        half = len(self._stays)
        self.shared: NDArray[np.int64] = np.arange(min(together, times))
        """Of these exchanges those that all tests of the data set share, in one order."""
        if listed and half < 40 and 2**half <= times:
            # The shared exchanges as places among the listed ones: bit by bit, group k is bit k.
            self.shared = (2 ** np.arange(half)) @ self._stays[:, : len(self.shared)].astype(np.int64)
            self._stays = (np.arange(2**half) >> np.arange(half)[:, None] & 1).astype(np.uint8)
        self.times = self._stays.shape[1]

    def blocks(self, step: int) -> Iterator[Floats]:
        """1 where a group keeps its side, (exchanges, groups), so many at a time."""
        for start in range(0, self.times, step):
            yield self._stays[:, start : start + step].T.astype(np.float64)


class Sides:
    """Weights of both sides: a, b, the bootstrap of a, that of b, and exchanges as seen from a and from b."""

    def __init__(self, part: Slice, exchanges: Exchanges) -> None:
        self.bootstrap, self.exchanges = part.bootstrap, exchanges
        self.half = part.bootstrap.groups
        self.groups = 2 * self.half
        own = part.bootstrap.seen_on(np.arange(len(part.rows))).group
        self.group = np.concatenate([own, own + self.half])
        self.times = 2 * (1 + part.bootstrap.times + exchanges.times)
        self.whole = self
        """The same of all rows of the data set: what calibrates is drawn and exchanged too, also where it is outside of the slice."""

    def seen_on(self, rows: NDArray[Any]) -> Weights:
        return Weights(np.empty((0, self.groups)), self.group[rows])

    def groups_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        return self.seen_on(rows).group

    def blocks(self) -> Iterator[Weights]:
        one, none = np.ones((1, self.half)), np.zeros((1, self.half))
        # One resample with only a, one with only b: the point estimates of both come out of the same pass.
        yield self._weights(one, none)
        yield self._weights(none, one)
        for side in (0, 1):
            for block in self.bootstrap.blocks():
                counts, empty = block.counts, np.zeros_like(block.counts)
                yield self._weights(counts, empty) if side == 0 else self._weights(empty, counts)
        for side in (0, 1):
            for stays in self.exchanges.blocks(max(1, BLOCK // max(1, len(self.group)))):
                yield self._weights(stays, 1 - stays) if side == 0 else self._weights(1 - stays, stays)

    def deletions(self) -> Iterator[Weights]:
        """Yield nothing: a permutation test needs no jackknife."""
        return iter(())

    def _weights(self, of_a: Floats, of_b: Floats) -> Weights:
        return Weights(np.hstack([of_a, of_b]), self.group)


def side_by_side(a: Cell, b: Cell) -> Cell:
    """The rows of both cells behind each other; what is unscored in one is unscored in both."""

    def joined(mine: dict[str, Floats], yours: dict[str, Floats]) -> dict[str, Floats]:
        both = {}
        for name in [n for n in mine if n in yours]:
            both[name] = _behind(mine[name], yours[name])
            both[name][np.tile(lacking(mine[name]) | lacking(yours[name]), 2)] = np.nan
        return both

    settings = {}
    for name in [n for n in a.settings if n in b.settings]:
        one, other = a.settings[name], b.settings[name]
        # What calibrates for one is out for both, so that both are tested on the same rows.
        calibrates = np.maximum(one.is_calibration, other.is_calibration)
        scores = {s: joined(one.scores[s], other.scores[s]) for s in one.scores if s in other.scores}
        redraws = {s: one.redraws[s].beside(other.redraws[s]) for s in scores if s in one.redraws and s in other.redraws}
        settings[name] = Setting(np.tile(calibrates, 2), scores, redraws)
    theirs = {r.label: r for r in b.recalibrations}
    recalibrations = [r.beside(theirs[r.label]) for r in a.recalibrations if r.label in theirs]
    samples = Samples(a.samples.name, pa.concat_tables([a.samples.table, b.samples.table]), sides=2)
    uncertainties = joined(a.uncertainties, b.uncertainties)
    clean = joined(a.clean_uncertainties, b.clean_uncertainties)
    columns = joined(a.columns, b.columns)
    return Cell(b.model, samples, a.variant, columns, settings, uncertainties, clean, recalibrations=recalibrations)


def _behind(mine: Floats, yours: Floats) -> Floats:
    """A column's rows of both; options that only one side's questions have, the other side gives a probability of 0."""
    if mine.ndim == 2 and mine.shape[1] != yours.shape[1]:
        width = max(mine.shape[1], yours.shape[1])
        mine, yours = (np.pad(side, ((0, 0), (0, width - side.shape[1]))) for side in (mine, yours))
    return np.concatenate([mine, yours])


def pairs_of(compare: dict[str, Any], models: Sequence[str]) -> list[tuple[str, str]]:
    """Which models are tested against which: all against the baseline, then the pairs asked for, none twice."""
    baseline = compare["baseline"]
    pairs = [(baseline, m) for m in models if m != baseline] if baseline in models else []
    pairs += [(a, b) for a, b in compare["pairs"] if a in models and b in models]
    return list(dict.fromkeys(pairs))
