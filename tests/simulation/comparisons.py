"""Studies in which models are alike, or differ by a known amount: what is drawn, and what the tests of a study make of it.

`python -m tests.simulation.comparisons [--studies 400]` prints what "What a study says" of docs/explanation/statistics.md has; with
`--families` what "What a wider family costs" has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from qualm.registry.sample import SAMPLES
from qualm.runners.data.aligned import Samples
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.families import ALPHA, METRIC, SLICE, STUDY, Family
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.measured import Slice
from qualm.runners.scoring.measuring.metrics import Metric, read_metrics
from qualm.runners.scoring.paired_tests import compare
from qualm.runners.scoring.rankings import ESTIMATORS, Rankings
from qualm.runners.stages.score import make_slices
from tests.simulation import worlds
from tests.simulation.intervals import cell_of

METRICS = ("accuracy", "ece", "confidence_weighted_accuracy")
"""Of the family of 60 tests."""


def metrics(*names: str) -> list[Metric]:
    return read_metrics([{"label": name, "plugin": name, "args": {"rows": "all"} if name == "ece" else {}} for name in names])


def samples(n: int, groups: int, kinds: int) -> Samples:
    """Questions in groups of equal size, each group of one kind."""
    rows = [
        {"sample_id": f"s{i}", "question": "?", "answerable": True, "group": f"g{i % groups}", "category": f"k{i % groups % kinds}"}
        for i in range(n)
    ]
    return Samples("d", pa.Table.from_pylist(rows, schema=SAMPLES))


def model(of: Samples, rng: np.random.Generator, difficulty: NDArray[np.float64], gain: float = 0.0) -> Cell:
    """Answers whose chance to be right is the group's, and higher by `gain`; confidence says half of it."""
    chance = np.clip(difficulty[of.groups] + gain, 0, 1)
    correct = (rng.random(of.n) < chance).astype(np.float64)
    confidence = np.clip((chance + rng.random(of.n)) / 2, 0, 1)
    answered = {"correct": correct, "confidence": confidence, "pred_is_idk": np.zeros(of.n), "gt_is_idk": np.zeros(of.n)}
    return Cell("m", of, "clean", {**answered, "answerable": np.ones(of.n)}, {}, {})


def study(of: Samples, a: Cell, b: Cell, named: Sequence[Metric], permutations: int) -> list[tuple[dict[str, Any], Any]]:
    """Every metric on every slice, with the evidence of each test."""
    tests = []
    for part in slices(of):
        for test in compare(named, a, b, part, 0.95, permutations, 7):
            tests.append(({"dataset": "d", "slice": part.label, "metric": test.metric}, test.evidence))
    return tests


def slices(of: Samples) -> list[Slice]:
    """The values of the questions' kind, without all together."""
    return [part for part in make_slices(of, ["category"], 2, 7) if part.label != "all"]


def least(tests: Sequence[tuple[dict[str, Any], Any]], correction: str, span: str) -> float:
    """The smallest corrected p-value."""
    family = Family(correction, span)
    for row, evidence in tests:
        family.add(dict(row), evidence)
    family.correct()
    return min((row["p_adjusted"] for row, _ in family.rows if row["p_adjusted"] is not None), default=1.0)


def ranked_alike(
    n: int, groups: int, value: float, names: Sequence[str], studies: int, models: int = 8, times: int = 1000
) -> dict[str, float]:
    """Models that are alike, ranked: the share of studies in which any two are told apart, by each metric alone and by all together,
    and in which one is left out of what may be best (`out`), or stands alone there (`alone`)."""
    counts: dict[str, list[bool]] = {}
    for k in range(studies):
        common = [0, k, n, groups, int(1000 * value)]
        drawn = (worlds.calibrated(n, groups, value, worlds.Twin(common, own)) for own in range(models))
        cells = [replace(cell_of(world, k), model=f"m{own}") for own, world in enumerate(drawn)]
        for span in (METRIC, STUDY):
            rankings = Rankings(metrics(*names), 0.95, span)
            part = Slice("all", np.arange(n), Bootstrap(cells[0].samples.groups, times, k, "d", "all"))
            for cell in cells:
                rankings.add(cell, part, evaluate(rankings.metrics, cell, part), True, True)
            rankings.rank()
            rows = rankings.tables()[0].to_pylist()
            for name in names if span == METRIC else ["study"]:
                of = [row for row in rows if span == STUDY or row["metric"] == name]
                if of:
                    counts.setdefault(f"{name}: out", []).append(not all(row["may_be_best"] for row in of))
                    counts.setdefault(f"{name}: alone", []).append(any(row["is_best"] for row in of))
    return {name: float(np.mean(of)) for name, of in counts.items()}


CLAIMS = (("holm", METRIC), ("max_t", METRIC), ("holm", SLICE), ("max_t", SLICE), ("holm", STUDY), ("max_t", STUDY))
"""Corrections, and the families that they hold the error rate of."""


def found(gain: float, studies: int, kinds: int = 4, pairs: int = 3, permutations: int = 1999) -> list[float]:
    """Models that are better than one baseline by `gain`, in all metrics and slices: the share of tests that each of CLAIMS finds."""
    n, groups = 400, 200
    rng, of, named = np.random.default_rng(int(1000 * gain)), samples(n, groups, kinds), metrics(*METRICS)
    shares = np.zeros(len(CLAIMS))
    for _ in range(studies):
        difficulty = rng.random(groups) * 0.6 + 0.1
        base = model(of, rng, difficulty)
        tests = [test for _ in range(pairs) for test in study(of, base, model(of, rng, difficulty, gain), named, permutations)]
        for k, (correction, span) in enumerate(CLAIMS):
            family = Family(correction, span)
            for row, evidence in tests:
                family.add(dict(row), evidence)
            family.correct()
            shares[k] += np.mean([row["p_adjusted"] < 0.05 for row, _ in family.rows]) / studies
    return [float(share) for share in shares]


def false_results(studies: int, kinds: int = 20, permutations: int = 999) -> dict[str, float]:
    """Two models that are alike, METRICS on `kinds` slices of 400 questions in 200 groups: shares of studies with any significant result,
    by the default (max-T over the study) and by what was done before it (Holm over the tests of a metric on a slice)."""
    rng, of, named = np.random.default_rng(5), samples(400, 200, kinds), metrics(*METRICS)
    any_of: dict[str, list[bool]] = {"max-T, study": [], "Holm, metric": []}
    for _ in range(studies):
        difficulty = rng.random(200)
        tests = study(of, model(of, rng, difficulty), model(of, rng, difficulty), named, permutations)
        any_of["max-T, study"].append(least(tests, "max_t", "study") < ALPHA)
        any_of["Holm, metric"].append(least(tests, "holm", "metric") < ALPHA)
    return {name: float(np.mean(found)) for name, found in any_of.items()}


def useless(of: Samples, rng: np.random.Generator, estimators: int = 42) -> Cell:
    """Answers, three fifths of them right, and estimators that know nothing of which."""
    cell = model(of, rng, np.full(of.n, 0.6))
    return replace(cell, uncertainties={f"e{k}": rng.normal(size=of.n) for k in range(estimators)})


def best_of_useless(runs: int, n: int = 100, times: int = 1000) -> dict[str, float]:
    """The estimator with the highest AUROC of 42 that are useless: its mean, how often it is clear of .5 by the interval that allows for
    the choice and by its own, and how often any two are told apart."""
    rng, of, named = np.random.default_rng(6), samples(n, n, 1), metrics("auroc")
    told: dict[str, list[float]] = {"AUROC of the best": [], "clear of chance": [], "by its own interval": [], "two told apart": []}
    for k in range(runs):
        cell, part = useless(of, rng), Slice("all", np.arange(n), Bootstrap(of.groups, times, k, "d", "all"))
        values = evaluate(named, cell, part)
        rankings = Rankings(named, 0.95, STUDY)
        rankings.add(cell, part, values, True, True)
        rankings.rank()
        rows, pairs = (table.to_pylist() for table in rankings.tables())
        best = next(row for row in rows if row["among"] == ESTIMATORS)
        own = intervals([next(one for label, one in values if label == f"auroc[{best['candidate']}]")], 0.95, n)[0]
        told["AUROC of the best"].append(best["value"])
        told["clear of chance"].append(best["low"] > 0.5)
        told["by its own interval"].append(own.low > 0.5)
        told["two told apart"].append(any(pair["p_adjusted"] < ALPHA for pair in pairs))
    return {name: float(np.mean(values)) for name, values in told.items()}


def power_beside_plain(gain: float, studies: int, n: int = 300, groups: int = 50, permutations: int = 1999) -> tuple[float, float]:
    """How often accuracy that is better by `gain` is told apart: by the default, and by a plain test with as many sign flips of the
    groups' differences, whose p is not corrected, as it is right for one test."""
    rng, of, named = np.random.default_rng(int(1000 * gain)), samples(n, groups, 1), metrics("accuracy")
    ours, plain = [], []
    for _ in range(studies):
        difficulty = rng.random(groups) * 0.6 + 0.1
        a, b = model(of, rng, difficulty), model(of, rng, difficulty, gain)
        ours.append(least(study(of, a, b, named, permutations), "max_t", STUDY) < ALPHA)
        sums = np.bincount(of.groups, b.columns["correct"] - a.columns["correct"])
        flips = rng.choice([-1.0, 1.0], (permutations, groups)) @ sums
        plain.append((1 + (np.abs(flips) >= abs(sums.sum()) - 1e-9).sum()) / (1 + permutations) < ALPHA)
    return float(np.mean(ours)), float(np.mean(plain))


def different_scales(studies: int, n: int, wrong: float, how: str, permutations: int = 999) -> float:
    """Two models whose uncertainty knows equally little of which answers are wrong, on scales of `how`: the same; 1 and 10 (`tenfold`);
    fine and of five values (`coarse`). How often their AUROC is told apart, of the studies in which both have a wrong answer."""
    rng, of, named = np.random.default_rng([7, n, int(1000 * wrong)]), samples(n, n, 1), metrics("auroc")
    told = []
    for _ in range(studies):
        cells = []
        for scale in (lambda u: u, {"same": lambda u: u, "tenfold": lambda u: 10 * u, "coarse": lambda u: np.round(4 * u)}[how]):
            cell = model(of, rng, np.full(n, 1 - wrong))
            cells.append(replace(cell, uncertainties={"e": scale(rng.random(n))}))
        if all((cell.columns["correct"] < 1).any() for cell in cells):
            (test,) = compare(named, *cells, Slice("all", np.arange(n), Bootstrap(of.groups, 2, 7, "d", "all")), 0.95, permutations, 7)
            told.append(test.p < ALPHA)
    return float(np.mean(told))


def lines(studies: int) -> Iterator[str]:
    """All of it."""
    yield f"some false result, 60 tests of equal models, {studies} studies: {false_results(studies)}"
    yield f"the best of 42 useless estimators, {studies} runs: {best_of_useless(studies)}"
    for n, wrong in ((100, 0.01), (100, 0.03), (100, 0.1), (300, 0.3)):
        shares = {how: round(different_scales(studies, n, wrong, how), 3) for how in ("same", "tenfold", "coarse")}
        yield f"AUROC of equal models told apart, {wrong:.0%} of {n} answers wrong, {studies} studies, by scales: {shares}"
    for gain in (0.0, 0.05, 0.1, 0.15):
        ours, plain = power_beside_plain(gain, studies)
        yield f"accuracy better by {gain:g}, 300 questions in 50 groups, {studies} studies: {ours:.3f}, by plain sign flips {plain:.3f}"


def families(studies: int) -> Iterator[str]:
    """A row of the table for each gain: all tests by each claim, then one pair of models on one slice over the study."""
    for gain in (0.1, 0.15, 0.2, 0.25):
        shares = [*found(gain, studies), *found(gain, studies, kinds=1, pairs=1)[-2:]]
        yield f"| {f'{gain:g}'.removeprefix('0')} | {' | '.join(f'{share:.3f}'.removeprefix('0') for share in shares)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--families", action="store_true")
    chosen = parser.parse_args()
    with threadpool_limits(1):
        for line in (families if chosen.families else lines)(chosen.studies):
            print(line, flush=True)


if __name__ == "__main__":
    main()
