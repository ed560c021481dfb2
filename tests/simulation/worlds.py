"""Answers of known truth: what every metric is with endless questions follows here from formulas and integrals.

Nothing of the product is used for a truth. Rows of one group share a normal effect, which correlates them. Marginal distributions, and with
them the truths, do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri
from scipy.stats import norm

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHARED = {"single": 0.0, "10": 0.3, "50": 0.3, "Pareto": 0.5}
"""Layouts of groups: single rows, as many equal groups, 60 groups of Pareto sizes; and the correlation of latents within a group."""
PARETO_GROUPS, PARETO_SHAPE, LARGEST = 60, 1.2, 50
OPTIONS, ALPHA = 4, 0.1
AUROC = 0.8
SPREAD, SHARPER = 1.2, 1.5
"""Of the log odds of being right; the confidence has them times SHARPER, which is too extreme."""
FLOOR = 2.220446049250313e-16
"""Least probability of the logarithmic score."""


@dataclass
class World:
    """One sample of answers."""

    group: Ints
    columns: dict[str, Floats]
    probs: Floats | None = None
    """Of options, where there are any."""
    answer: Ints | None = None


def layout_groups(layout: str, n: int, rng: np.random.Generator) -> Ints:
    """Return the group of each row."""
    if layout == "single":
        return np.arange(n)
    if layout == "Pareto":
        share = 1 + rng.pareto(PARETO_SHAPE, PARETO_GROUPS)
        sizes = 1 + rng.multinomial(n - PARETO_GROUPS, share / share.sum())
        return np.repeat(np.arange(PARETO_GROUPS), sizes)
    return np.arange(n) * int(layout) // n


def latent(group: Ints, rng: np.random.Generator, shared: float) -> Floats:
    """Draw standard normal numbers with correlation `shared` within groups."""
    effects = rng.normal(size=int(group.max()) + 1)
    return np.asarray(np.sqrt(shared) * effects[group] + np.sqrt(1 - shared) * rng.normal(size=len(group)))


def latents(group: Ints, rng: np.random.Generator, shared: float | tuple[float, ...], count: int = 2) -> list[Floats]:
    """Draw latents of several models, of correlation 1/2 with each other; `shared` within groups, of all or of each."""
    each = shared if isinstance(shared, tuple) else (shared,) * count
    common = rng.normal(size=len(group)), rng.normal(size=int(group.max()) + 1)
    drawn = []
    for of in each:
        own = rng.normal(size=len(group)), rng.normal(size=int(group.max()) + 1)
        rows, effects = ((mine + theirs) / np.sqrt(2) for mine, theirs in zip(common, own, strict=True))
        drawn.append(np.asarray(np.sqrt(of) * effects[group] + np.sqrt(1 - of) * rows))
    return drawn


@cache
def grid() -> Floats:
    """Return equally likely standard normal numbers."""
    return np.asarray(ndtri((np.arange(200_000) + 0.5) / 200_000))


@cache
def centre(rate: float) -> float:
    """Return the mean log odds of answers of which `rate` are right."""
    return float(brentq(lambda at: expit(at + SPREAD * grid()).mean() - rate, -20, 20))


def distance(auroc: float, spread: float = 1.0) -> float:
    """Return how much higher the uncertainty of wrong answers is, N(distance, spread), than N(0, 1) of right ones."""
    return float(norm.ppf(auroc) * np.sqrt(1 + spread**2))


def forecasts(odds: Floats, tenths: bool) -> Floats:
    """Return confidences of answers by their log odds of being right."""
    confidence = expit(SHARPER * odds)
    return np.asarray(np.round(confidence, 1) if tenths else confidence)


def false_positives(rate: float) -> float:
    """Return the share of other questions that are called positive, so that precision is about .8."""
    return min(0.2, 0.2 * rate / (1 - rate))


def answers(n: int, layout: str, rate: float, rng: np.random.Generator) -> World:
    """Draw answers of which `rate` are right, with confidences and uncertainties; and positive questions, of which there are `rate` too."""
    group, shared = layout_groups(layout, n, rng), SHARED[layout]
    odds = centre(rate) + SPREAD * latent(group, rng, shared)
    correct = (norm.cdf(latent(group, rng, shared)) < expit(odds)).astype(np.float64)
    positive = (norm.cdf(latent(group, rng, shared)) < rate).astype(np.float64)
    called = norm.cdf(latent(group, rng, shared)) < np.where(positive == 1, 0.8, false_positives(rate))
    uncertainty = latent(group, rng, shared) + distance(AUROC) * (1 - correct)
    columns = {
        "correct": correct,
        "odds": odds,
        "uncertainty": uncertainty,
        "gt_is_idk": positive,
        "pred_is_idk": called.astype(np.float64),
    }
    return World(group, columns)


@cache
def truths(rate: float) -> dict[str, float]:
    """Return the metrics of such answers with endless questions."""
    hits, called = 0.8 * rate, 0.8 * rate + false_positives(rate) * (1 - rate)
    whole = {f"{name}, tenths": value for name, value in of_forecasts(rate, True).items() if name in ("brier", "nll", "ece")}
    f1 = {"f1_idk": 2 * hits / (called + rate)}
    return {"accuracy": rate} | of_forecasts(rate, False) | whole | of_ranking(rate, distance(AUROC)) | f1


def of_forecasts(rate: float, tenths: bool) -> dict[str, float]:
    """Integrate the metrics of confidences over the log odds."""
    odds = centre(rate) + SPREAD * grid()
    right, p = expit(odds), forecasts(odds, tenths)
    surest, least = np.log(np.maximum(p, FLOOR)), np.log(np.maximum(1 - p, FLOOR))
    place = np.clip(np.ceil(p * 15 - 1e-9) - 1, 0, 14).astype(int)
    return {
        "brier": float((right * (1 - p) ** 2 + (1 - right) * p**2).mean()),
        "nll": float(-(right * surest + (1 - right) * least).mean()),
        "ece": float(np.abs(np.bincount(place, right - p, 15)).sum() / len(p)),
        "confidence_weighted_accuracy": float((p * (2 * right - 1)).mean()),
    }


@cache
def of_ranking(right: float, apart: float, spread: float = 1.0) -> dict[str, float]:
    """Integrate over thresholds: uncertainties are N(0, 1) of right answers and N(apart, spread) of wrong ones."""
    t = np.linspace(-12 * spread, 12 * spread + apart, 400_001)
    given_right, given_wrong = right * norm.cdf(t), (1 - right) * norm.cdf((t - apart) / spread)
    kept = given_right + given_wrong
    called, hits = 1 - kept, (1 - right) - given_wrong
    usable = kept > 1e-12
    auarc = float(np.trapezoid((given_right / np.where(usable, kept, 1))[usable], kept[usable]))
    perfect = right - right * float(np.log(right))
    precision = hits / np.where(called > 1e-12, called, 1)
    auroc = float(norm.cdf(apart / np.sqrt(1 + spread**2)))
    return {
        "auroc": auroc,
        "auarc": auarc,
        "aurc": 1 - auarc,
        "augrc": (1 - auroc) * right * (1 - right) + (1 - right) ** 2 / 2,
        "prediction_rejection_ratio": (auarc - right) / (perfect - right),
        "average_precision": float(-np.trapezoid(precision, hits / (1 - right))),
        "selective_accuracy": float(np.interp(0.8, kept, given_right) / 0.8),
    }


def overconfident(group: Ints, score: Floats, luck: Floats, ends: tuple[float, float], off: float) -> World:
    """Confidences uniform between two ends, above the chance to be right by `off`, of two latents."""
    confidence = ends[0] + (ends[1] - ends[0]) * norm.cdf(score)
    correct = (norm.cdf(luck) < confidence - off).astype(np.float64)
    return World(group, {"correct": correct, "confidence": confidence})


def ranked(group: Ints, luck: Floats, noise: Floats, right: float, apart: float, spread: float = 1.0) -> World:
    """Answers of which `right` are right, and uncertainties as `of_ranking` has them."""
    wrong = (norm.cdf(luck) > right).astype(np.float64)
    return World(group, {"correct": 1 - wrong, "uncertainty": np.where(wrong == 1, apart + spread * noise, noise)})


@cache
def sizes_of(kind: str) -> tuple[Ints, Floats]:
    """Return possible group sizes and their chances: `ten` rows, `uneven` (1 or 20), or `Pareto` up to LARGEST."""
    if kind == "ten":
        return np.array([10]), np.ones(1)
    if kind == "uneven":
        return np.array([1, 20]), np.array([0.8, 0.2])
    sizes = np.arange(1, LARGEST + 1)
    beyond = np.append(sizes[:-1] + 1.0, np.inf) ** -PARETO_SHAPE
    return sizes, sizes**-PARETO_SHAPE - beyond


def sized_groups(kind: str, count: int, rng: np.random.Generator) -> Ints:
    """Draw groups of such sizes."""
    sizes, chance = sizes_of(kind)
    return np.repeat(np.arange(count), rng.choice(sizes, count, p=chance))


def options(n: int, groups: int, value: float, rng: np.random.Generator) -> World:
    """Draw multiple-choice answers; `value` is about the accuracy. Conformal truths are means over many such worlds."""
    group = layout_groups("single" if groups >= n else str(groups), n, rng)
    lead = {0.5: 0.9, 0.9: 2.7, 0.99: 4.4}[value]
    logits = np.column_stack([latent(group, rng, 0.3) for _ in range(OPTIONS)])
    answer = rng.integers(0, OPTIONS, n)
    logits[np.arange(n), answer] += lead
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = powers / powers.sum(axis=1, keepdims=True)
    correct = (probs.argmax(axis=1) == answer).astype(np.float64)
    return World(group, {"correct": correct, "n_options": np.full(n, float(OPTIONS))}, probs, answer)


def split_conformal(world: World, calibrates: NDArray[np.bool_]) -> dict[str, float]:
    """LAC (Sadinle, Lei, Wasserman, 2019) with a threshold by groups (Lee, Barber, Willett, 2023), alpha = .1, by the definitions.

    Returns coverage, mean size of sets and UAcc of the rows that do not calibrate.
    """
    assert world.probs is not None and world.answer is not None
    scores = 1 - world.probs
    own, group = scores[np.arange(len(scores)), world.answer][calibrates], world.group[calibrates]
    order, groups = np.argsort(own), len(np.unique(group))
    mass = np.cumsum(1 / np.bincount(group)[group[order]]) / (groups + 1)
    limit = np.append(own[order][mass >= 0.9 - 1e-12], np.inf)[0]
    inside = scores[~calibrates] <= limit + 1e-12
    empty = ~inside.any(axis=1)
    inside[empty, scores[~calibrates][empty].argmin(axis=1)] = True
    size = float(inside.sum(axis=1).mean())
    covered = float(inside[np.arange(len(inside)), world.answer[~calibrates]].mean())
    accuracy = float(world.columns["correct"][~calibrates].mean())
    return {"coverage": covered, "set_size": size, "uncertainty_aware_accuracy": accuracy * OPTIONS**0.5 / size}
