"""How often the interval of a single value holds the value with endless questions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from qualm.runners.data.agreement import cohen_kappa, jackknife, krippendorff_alpha
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.results.judge_reliability import _tau_b
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from tests.simulation import worlds
from tests.simulation.cells import LEVEL, cell_of, metrics, slice_of
from tests.simulation.tallies import COVERAGE, Entry, Outcomes, Question, Row
from tests.simulation.worlds import World

FORECASTS = ("brier", "nll", "ece")
NAMES = (
    *("accuracy", *FORECASTS, "confidence_weighted_accuracy", "auroc", "auarc", "aurc", "augrc", "prediction_rejection_ratio"),
    *("average_precision", "selective_accuracy", "f1_idk"),
)
TENTHS = tuple(f"{name}, tenths" for name in FORECASTS)
RATES = (0.02, 0.1, 0.5, 0.9, 0.98)
LAYOUTS = {30: ("single", "10"), 100: ("single", "10", "50"), 300: ("single", "50", "Pareto"), 1000: ("single", "10", "50", "Pareto")}


def holds(ends: Limits, truth: float) -> float | None:
    """Return 1 if an interval holds the truth, 0 if not, None if there is none."""
    return None if np.isnan(ends.low) else float(ends.low - 1e-9 <= truth <= ends.high + 1e-9)


def measured(world: World, names: tuple[str, ...], truth: Mapping[str, float], seed: int) -> dict[str, float | None]:
    """Return for each metric if its interval holds the truth."""
    cell = cell_of(world, seed)
    part = slice_of(cell.samples, seed)
    values = [(label.partition("[")[0], one) for label, one in evaluate(metrics(*names), cell, part) if "mean]" not in label]
    ends = intervals([one for _, one in values], LEVEL, part.bootstrap.groups)
    return {label: holds(of, truth[label]) for (label, _), of in zip(values, ends, strict=True)}


def draw(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw answers and look at every interval."""
    n, layout, rate = int(row[0]), str(row[1]), float(row[2])
    world, truth = worlds.answers(n, layout, rate, rng), worlds.truths(rate)
    odds, seed = world.columns.pop("odds"), int(rng.integers(2**31))
    world.columns["confidence"] = worlds.forecasts(odds, tenths=False)
    found = measured(world, NAMES, truth, seed)
    rounded = World(world.group, {"correct": world.columns["correct"], "confidence": worlds.forecasts(odds, tenths=True)})
    of_tenths = measured(rounded, FORECASTS, {name: truth[f"{name}, tenths"] for name in FORECASTS}, seed)
    return {("", name): held for name, held in (found | {f"{name}, tenths": held for name, held in of_tenths.items()}).items()}


def columns(row: Row) -> list[Entry]:
    return [("", name) for name in (*NAMES, *TENTHS)]


QUESTION = Question(
    "single values",
    ("questions", "groups", "base rate"),
    tuple((n, layout, rate) for n, layouts in LAYOUTS.items() for layout in layouts for rate in RATES),
    columns,
    draw,
    dict.fromkeys((*NAMES, *TENTHS), COVERAGE),
)

COEFFICIENTS = ("kappa", "alpha", "tau_b")
AGREE = 0.8


@cache
def joint(rate: float) -> np.ndarray:
    """Return the joint chances of ratings 0, 1/2, 1: the first rater gives 1 to `rate`, the second agrees with chance AGREE."""
    first = np.array([(1 - rate) / 2, (1 - rate) / 2, rate])
    return np.asarray(first[:, None] * np.where(np.eye(3) == 1, AGREE, (1 - AGREE) / 2))


def agreement(rate: float) -> dict[str, float]:
    """Return the coefficients of endless items."""
    p = joint(rate)
    a, b = p.sum(axis=1), p.sum(axis=0)
    agree, pooled = float(np.trace(p)), (a + b) / 2
    above = np.sign(np.subtract.outer(np.arange(3), np.arange(3)))
    concordance = float(np.einsum("ij,kl,ik,jl->", p, p, above, above))
    untied = np.sqrt((1 - (a**2).sum()) * (1 - (b**2).sum()))
    kappa = (agree - a @ b) / (1 - a @ b)
    return {"kappa": float(kappa), "alpha": 1 - (1 - agree) / (1 - float(pooled @ pooled)), "tau_b": concordance / float(untied)}


def draw_ratings(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw the ratings of two raters and look at the jackknife intervals."""
    n, rate = int(row[0]), float(row[1])
    first, second = np.divmod(rng.choice(9, n, p=joint(rate).ravel()), 3)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    texts = [(str(a), str(b)) for a, b in pairs]
    ends = {
        "kappa": jackknife(lambda items: cohen_kappa([a for a, _ in items], [b for _, b in items]), texts),
        "alpha": jackknife(krippendorff_alpha, texts),
        "tau_b": jackknife(_tau_b, [(a / 2, b / 2) for a, b in pairs]),
    }
    truth = agreement(rate)
    return {("", name): None if of is None else float(of[0] <= truth[name] <= of[1]) for name, of in ends.items()}


AGREEMENT = Question(
    "agreement",
    ("items", "share of one rating"),
    tuple((n, rate) for n in (30, 100) for rate in (0.33, 0.9)),
    lambda row: [("", name) for name in COEFFICIENTS],
    draw_ratings,
    dict.fromkeys(COEFFICIENTS, COVERAGE),
)

OF_SETS = ("coverage", "set_size", "uncertainty_aware_accuracy")
DRAWS = 400
"""Whose mean is the truth: to a twentieth of a standard error."""


@cache
def conformal(n: int, groups: int, accuracy: float) -> dict[str, float]:
    """Average the definition's own numbers over draws of calibration and test questions alike."""
    drawn: dict[str, list[float]] = {}
    for k in range(DRAWS):
        world = worlds.options(n, groups, accuracy, np.random.default_rng([9, k]))
        for name, number in worlds.split_conformal(world, calibration_rows(world.group, 0.5, k, "groups")).items():
            drawn.setdefault(name, []).append(number)
    return {name: float(np.mean(numbers)) for name, numbers in drawn.items()}


def draw_sets(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw multiple-choice answers, half of whose groups calibrate, and look at the intervals of what sets do."""
    n, groups, accuracy = int(row[0]), int(row[1]), float(row[2])
    found = measured(worlds.options(n, groups, accuracy, rng), OF_SETS, conformal(n, groups, accuracy), int(rng.integers(2**31)))
    return {("", name): held for name, held in found.items()}


SETS = Question(
    "conformal metrics",
    ("questions", "groups", "accuracy"),
    tuple((n, groups, accuracy) for n, groups in ((100, 50), (300, 20), (300, 300), (1000, 50)) for accuracy in (0.5, 0.9)),
    lambda row: [("", name) for name in OF_SETS],
    draw_sets,
    dict.fromkeys(OF_SETS, COVERAGE),
)
