"""How often the paired test of two models rejects a true null hypothesis, and how often its interval holds the true difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from scipy.optimize import brentq

from qualm.runners.scoring.families import Family
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.paired_tests import Test, compare
from qualm.runners.scoring.rankings import BOTH, Rankings
from tests.simulation import worlds
from tests.simulation.cells import LEVEL, cell_of, metrics, slice_of
from tests.simulation.single_values import holds
from tests.simulation.tallies import COVERAGE, EDGE, SIZE, Entry, Outcomes, Question, Row
from tests.simulation.worlds import AUROC, SHARED, World, distance, latents, layout_groups, of_ranking, overconfident, ranked

CALIBRATION = ("ece", "ece_adaptive", "ece_smooth", "ks_calibration_error", "mce")
ANSWERS = ("accuracy", "brier", "nll", "confidence_weighted_accuracy", "auroc")
RANKING = ("auroc", "auarc", "augrc", "prediction_rejection_ratio", "average_precision")
REJECTS, HOLDS, FAMILY = "p≤.05", "interval", "any, max-T"
SHARP = {
    "calibrated, confidence .5-.7/.9-1": ((0.5, 0.7), (0.9, 1.0), 0.0),
    "calibrated, confidence .3-.9/.7-1": ((0.3, 0.9), (0.7, 1.0), 0.0),
    "both .1 overconfident, .5-.7/.8-1": ((0.5, 0.7), (0.8, 1.0), 0.1),
}
BETTER, WORSE, UNEQUAL = 0.95, 0.5, 2.0
"""Accuracies of two models, and the spread of the second's uncertainty of wrong answers."""
Pair = tuple[World, World, dict[str, float]]
"""Two models, and the true differences of metrics."""


@cache
def equal_rejection() -> float:
    """Return the distance at which a model that is right half of the time has the rejection ratio of one that is mostly right."""
    name = "prediction_rejection_ratio"
    wanted = of_ranking(BETTER, distance(AUROC))[name]
    return float(brentq(lambda apart: of_ranking(WORSE, apart)[name] - wanted, 0.0, 4.0, xtol=1e-6))


def sharpness(world: str, n: int, layout: str, rng: np.random.Generator) -> Pair:
    """Two models of equal calibration error and unequal sharpness."""
    first, second, off = SHARP[world]
    group = layout_groups(layout, n, rng)
    scores, luck = (latents(group, rng, SHARED[layout]) for _ in range(2))
    a, b = (overconfident(group, score, chance, ends, off) for score, chance, ends in zip(scores, luck, (first, second), strict=True))
    return a, b, dict.fromkeys(CALIBRATION, 0.0)


def rankings(world: str, n: int, layout: str, rng: np.random.Generator) -> Pair:
    """Two models of unequal accuracy and equal AUROC, also with unequal variance, or of equal rejection ratio."""
    spread = UNEQUAL if world.endswith("unequal variance") else 1.0
    apart = equal_rejection() if world.startswith("equal rejection ratio") else distance(AUROC, spread)
    of = (BETTER, distance(AUROC), 1.0), (WORSE, apart, spread)
    group = layout_groups(layout, n, rng)
    luck, noise = (latents(group, rng, SHARED[layout]) for _ in range(2))
    a, b = (ranked(group, *drawn, *which) for *drawn, which in zip(luck, noise, of, strict=True))
    one, other = (of_ranking(*which) for which in of)
    return a, b, {name: other[name] - one[name] for name in RANKING}


def alike(world: str, n: int, layout: str, rng: np.random.Generator) -> Pair:
    """Two models of equal marginal distributions: alike, or with unequal correlation within groups."""
    rate = 0.7 if world.startswith("unequal group variance") else float(world.rpartition(" ")[2])
    shared = (0.0, 0.8) if world.startswith("unequal group variance") else (SHARED[layout],) * 2
    group = layout_groups(layout, n, rng)
    scores, luck, noise = (latents(group, rng, shared) for _ in range(3))
    pair = []
    for score, chance, doubt in zip(scores, luck, noise, strict=True):
        odds = worlds.centre(rate) + worlds.SPREAD * score
        correct = (worlds.norm.cdf(chance) < worlds.expit(odds)).astype(np.float64)
        columns = {"correct": correct, "confidence": worlds.forecasts(odds, False), "uncertainty": doubt + distance(AUROC) * (1 - correct)}
        pair.append(World(group, columns))
    return pair[0], pair[1], dict.fromkeys(ANSWERS, 0.0)


SIZES = ((100, "single"), (300, "single"), (1000, "single"), (300, "50"), (1000, "Pareto"))
RATES = ("alike, base rate .02", "alike, base rate .5", "alike, base rate .98")
EQUAL_RANKINGS = (
    "equal AUROC, accuracy .95/.5",
    "equal AUROC, accuracy .95/.5, unequal variance",
    "equal rejection ratio, accuracy .95/.5",
)


def compared(pair: Pair, names: tuple[str, ...], seed: int, margin: float | None = None) -> dict[str, Test]:
    """Return the product's tests."""
    a, b = (cell_of(world) for world in pair[:2])
    tests = compare(metrics(*names), a, b, slice_of(a.samples, seed), LEVEL, margin)
    return {test.metric.partition("[")[0]: test for test in tests}


def draw(
    make: Callable[[str, int, str, np.random.Generator], Pair], names: tuple[str, ...], row: Row, rng: np.random.Generator
) -> Outcomes:
    """Draw two models and look at every test."""
    *_, truth = pair = make(str(row[0]), int(row[1]), str(row[2]), rng)
    tests = compared(pair, names, int(rng.integers(2**31)))
    found: dict[Entry, float | None] = {}
    for name in names:
        test = tests[name]
        if abs(truth[name]) < 1e-4:
            found["", f"{name}: {REJECTS}"] = None if np.isnan(test.p) else float(test.p <= 0.05)
        found["", f"{name}: {HOLDS}"] = holds(Limits(test.low, test.high), truth[name])
    if not any(truth.values()):
        family = Family("max_t", "study")
        for name, test in tests.items():
            family.add({"dataset": "d", "slice": "all", "metric": name}, test.evidence)
        family.correct()
        p = [of["p_adjusted"] for of, _ in family.rows if of["p_adjusted"] is not None]
        found["", FAMILY] = float(min(p) < 0.05) if p else None
    return found


def question(
    name: str,
    make: Callable[[str, int, str, np.random.Generator], Pair],
    names: tuple[str, ...],
    worlds_of: tuple[str, ...],
    sizes: tuple[tuple[int, str], ...],
    rows: tuple[Row, ...] = (),
) -> Question:
    """Return the table of some metrics in some worlds, all of which are drawn by one function."""
    aims = {f"{metric}: {what}": aim for metric in names for what, aim in ((REJECTS, SIZE), (HOLDS, COVERAGE))} | {FAMILY: SIZE}
    drawn = (*((world, n, layout) for world in worlds_of for n, layout in sizes), *rows)
    return Question(
        name, ("a / b", "questions", "groups"), drawn, lambda row: [("", column) for column in aims], partial(draw, make, names), aims
    )


UNEQUAL_VARIANCE = "unequal group variance"
OF_CALIBRATION = question("calibration errors", sharpness, CALIBRATION, tuple(SHARP), SIZES)
OF_RANKINGS = question("areas and ratios", rankings, RANKING, EQUAL_RANKINGS, SIZES)
OF_ANSWERS = question(
    "means and AUROC",
    alike,
    ANSWERS,
    RATES,
    ((30, "single"), (100, "single"), (100, "10"), (300, "50"), (1000, "single"), (1000, "Pareto")),
    tuple((UNEQUAL_VARIANCE, n, layout) for n, layout in ((100, "10"), (300, "50"), (1000, "10"), (1000, "50"), (1000, "Pareto"))),
)

MARGINS = {"accuracy .7/.65, margin .05": (0.7, 0.65, 0.05), "accuracy .98/.96, margin .02": (0.98, 0.96, 0.02)}
RANKED = "AUROC .8/.75, margin .05"
EQUIVALENT, NOT_WORSE = "equal within the margin", "not worse by the margin"


def draw_margin(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw a model that is worse by the very margin."""
    world, n, layout = str(row[0]), int(row[1]), str(row[2])
    group = layout_groups(layout, n, rng)
    luck, noise = (latents(group, rng, SHARED[layout]) for _ in range(2))
    rates, apart, margin, name = (0.7, 0.7), (distance(AUROC), distance(AUROC - 0.05)), 0.05, "auroc"
    if world != RANKED:
        *rates, margin = MARGINS[world]
        apart, name = (distance(AUROC),) * 2, "accuracy"
    a, b = (ranked(group, *of) for of in zip(luck, noise, rates, apart, strict=True))
    test = compared((a, b, {}), (name,), int(rng.integers(2**31)), margin)[name]
    found = {EQUIVALENT: test.p_equivalent, NOT_WORSE: test.p_not_worse}
    return {("", column): None if np.isnan(p) else float(p <= 0.05) for column, p in found.items()}


MARGIN = Question(
    "margins",
    ("a / b", "questions", "groups"),
    tuple(
        (world, n, layout)
        for world in (*MARGINS, RANKED)
        for n, layout in ((100, "single"), (300, "single"), (300, "50"), (1000, "single"), (1000, "10"), (1000, "Pareto"))
    ),
    lambda row: [("", EQUIVALENT), ("", NOT_WORSE)],
    draw_margin,
    {EQUIVALENT: EDGE, NOT_WORSE: EDGE},
    times=5,
)

CANDIDATES = 10
TOLD, LEADS = "two significantly different", "one named best"


def draw_ranking(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw ten equally good estimators of one model, or ten equally good models, and rank them."""
    what, n, layout, wrong = str(row[0]), int(row[1]), str(row[2]), int(row[3])
    group, seed = layout_groups(layout, n, rng), int(rng.integers(2**31))
    shared = (SHARED[layout],) * CANDIDATES
    of_models = what.startswith("models")
    name = what.rpartition(" ")[2]
    if of_models:
        rate = 1 - wrong / n
        drawn = zip(latents(group, rng, shared), latents(group, rng, shared), strict=True)
        cells = [cell_of(ranked(group, luck, noise, rate, distance(AUROC)), name=f"m{k}") for k, (luck, noise) in enumerate(drawn)]
    else:
        correct = np.ones(n)
        correct[rng.choice(n, wrong, replace=False)] = 0.0
        cells = [cell_of(World(group, {"correct": correct}))]
        noise = latents(group, rng, shared)
        cells[0].uncertainties.update({f"e{k}": of + distance(AUROC) * (1 - correct) for k, of in enumerate(noise)})
    rankings_of = Rankings(metrics(name), LEVEL, "study")
    part = slice_of(cells[0].samples, seed)
    for cell in cells:
        rankings_of.add(cell, part, evaluate(rankings_of.metrics, cell, part), True, True)
    rankings_of.rank()
    rows, pairs = (table.to_pylist() for table in rankings_of.tables())
    rows = [of for of in rows if of["among"] != BOTH]
    if not rows:
        return {("", TOLD): None, ("", LEADS): None}
    told = any(of["p_adjusted"] < 0.05 for of in pairs) if pairs else not all(of["may_be_best"] for of in rows)
    return {("", TOLD): float(told), ("", LEADS): float(any(of["is_best"] for of in rows))}


RANKINGS = Question(
    "rankings",
    ("ten equally good", "questions", "groups", "wrong answers"),
    (
        *(("estimators, by auroc", n, "single", wrong) for n in (100, 300) for wrong in (6, 8, 10, 12, 30)),
        *(("estimators, by auroc", 300, "50", wrong) for wrong in (12, 30)),
        *(("estimators, by augrc", 300, "single", wrong) for wrong in (6, 12, 30)),
        *(("models, by accuracy", n, layout, n // 20) for n, layout in ((100, "single"), (300, "single"), (300, "50"), (1000, "Pareto"))),
    ),
    lambda row: [("", TOLD), ("", LEADS)],
    draw_ranking,
    {TOLD: SIZE, LEADS: SIZE},
    times=5,
)
