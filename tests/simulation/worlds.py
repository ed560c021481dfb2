"""Answers of known truth: what every metric would be with endless questions is computed here, by formulas and by integration.

Nothing of the product is used for the truth. Rows of one group share a normal effect, so that they are correlated (`SHARED` of the
variance of every latent variable); marginal distributions, and with them the truths, do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]
SHARED = 0.3
RIGHT = 0.7
"""Share of right answers, where a ranking and not the accuracy is what is set."""
OPTIONS, ALPHA = 4, 0.1


@dataclass
class World:
    """One sample of answers."""

    group: NDArray[np.int64]
    columns: dict[str, Floats]
    truth: dict[str, float]
    """Metric (with the parameters of `METRICS` in `intervals.py`) -> its value with endless questions."""
    probs: Floats | None = None
    """Of options, where there are any."""
    answer: NDArray[np.int64] | None = None
    clean: dict[str, Floats] = field(default_factory=dict)


class Twin:
    """Chance of one of two models: half the variance of every normal number is the other's too, all else is the same of both."""

    def __init__(self, common: list[int], own: int) -> None:
        self.common, self.own = np.random.default_rng(common), np.random.default_rng([*common, own])

    def normal(self, size: int) -> Floats:
        mixed: Floats = np.sqrt(0.5) * (self.common.normal(size=size) + self.own.normal(size=size))
        return mixed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.common, name)


Chance = np.random.Generator | Twin


def grouped(n: int, groups: int, rng: Chance) -> NDArray[np.int64]:
    """Group of each row: sizes vary by about a third, none is empty; each row by itself where there are as many groups as rows."""
    if groups >= n:
        return np.arange(n)
    share = rng.gamma(9.0, size=groups)
    group = np.concatenate([np.arange(groups), rng.choice(groups, n - groups, p=share / share.sum())])
    return np.sort(group)


def latent(group: NDArray[np.int64], rng: Chance) -> Floats:
    """Standard normal, correlated within groups."""
    effects = rng.normal(size=int(group.max()) + 1)
    return np.sqrt(SHARED) * effects[group] + np.sqrt(1 - SHARED) * rng.normal(size=len(group))


def answers(n: int, groups: int, value: float, rng: Chance) -> World:
    """Accuracy `value`; confidence uniform in [.5, 1] and independent of it."""
    group = grouped(n, groups, rng)
    correct = (latent(group, rng) < norm.ppf(value)).astype(np.float64)
    confidence = 0.5 + 0.5 * norm.cdf(latent(group, rng))
    shift = np.sqrt(2) * norm.ppf(value)
    clean = latent(group, rng)
    columns = {"correct": correct, "confidence": confidence, "uncertainty": latent(group, rng) + shift}
    truth = {"accuracy": value, "confidence_weighted_accuracy": 0.75 * (2 * value - 1), "uncertainty_reflection_rate": value}
    return World(group, columns, truth, clean={"clean_uncertainty": clean, "clean_correct": np.ones(n)})


def ranking(n: int, groups: int, value: float, rng: Chance) -> World:
    """Uncertainty of wrong answers is `distance` higher: AUROC `value`, and what AUARC and best F1 follow from that."""
    group = grouped(n, groups, rng)
    distance = np.sqrt(2) * norm.ppf(value)
    wrong = (latent(group, rng) > norm.ppf(RIGHT)).astype(np.float64)
    columns = {"correct": 1 - wrong, "uncertainty": latent(group, rng) + distance * wrong, "uncertain": wrong}
    error = 1 - RIGHT
    augrc = (1 - value) * RIGHT * error + error**2 / 2
    withheld = float(norm.cdf(norm.ppf(0.95) - distance))
    return World(group, columns, {"auroc": value, "augrc": augrc, "fpr_at_tpr": withheld} | _of_ranking(float(distance)))


@cache
def _of_ranking(distance: float) -> dict[str, float]:
    """What follows from the order of two normal distributions, by integration over thresholds."""
    t = np.linspace(-10, 10 + distance, 400_001)
    right, wrong = RIGHT * norm.cdf(t), (1 - RIGHT) * norm.cdf(t - distance)
    kept = right + wrong
    called, hits = 1 - kept, (1 - RIGHT) - wrong
    usable = kept > 1e-12
    auarc = float(np.trapezoid((right / np.where(usable, kept, 1))[usable], kept[usable]))
    perfect = RIGHT - RIGHT * float(np.log(RIGHT))
    precision = hits / np.where(called > 1e-12, called, 1)
    return {
        "average_precision": float(-np.trapezoid(precision, hits / (1 - RIGHT))),
        "auarc": auarc,
        "best_f1": float((2 * hits / (called + 1 - RIGHT)).max()),
        "aurc": 1 - auarc,
        "e_aurc": perfect - auarc,
        "prediction_rejection_ratio": (auarc - RIGHT) / (perfect - RIGHT),
        "selective_accuracy": float(np.interp(0.8, kept, right) / 0.8),
    }


def change(n: int, groups: int, value: float, rng: Chance) -> World:
    """Point-biserial correlation `value` of change of uncertainty and becoming wrong, which RIGHT says how often happens."""
    group = grouped(n, groups, rng)
    wrong = (latent(group, rng) > norm.ppf(RIGHT)).astype(np.float64)
    spread = np.sqrt(RIGHT * (1 - RIGHT))
    distance = value / spread / np.sqrt(1 - value**2)
    clean = latent(group, rng)
    columns = {"correct": 1 - wrong, "uncertainty": clean + latent(group, rng) + distance * wrong}
    return World(
        group, columns, {"hallucination_change_correlation": value}, clean={"clean_uncertainty": clean, "clean_correct": np.ones(n)}
    )


def calibrated(n: int, groups: int, value: float, rng: Chance) -> World:
    """Accuracy lies 1 - `value` below confidence everywhere: .99 is nearly calibrated, .9 clearly not, 1 perfectly."""
    group = grouped(n, groups, rng)
    confidence = 0.6 + 0.4 * norm.cdf(latent(group, rng))
    correct = (norm.cdf(latent(group, rng)) < confidence - (1 - value)).astype(np.float64)
    truth = {"ece": 1 - value, "ece_smooth": 1 - value, "ece_adaptive": 1 - value} | _of_forecasts(1 - value)
    return World(group, {"correct": correct, "confidence": confidence}, truth)


@cache
def _of_forecasts(off: float) -> dict[str, float]:
    """Brier score and log-likelihood of confidences uniform in [.6, 1], by integration."""
    p = 0.6 + 0.4 * (np.arange(1_000_000) + 0.5) / 1_000_000
    right = p - off
    return {
        "brier": float((right * (1 - p) ** 2 + (1 - right) * p**2).mean()),
        "nll": float(-(right * np.log(p) + (1 - right) * np.log(1 - p)).mean()),
    }


def options(n: int, groups: int, value: float, rng: Chance) -> World:
    """Multiple choice; `value` is about the accuracy. Conformal truths come from many such worlds (`intervals.py`)."""
    group = grouped(n, groups, rng)
    lead = {0.5: 0.9, 0.9: 2.7, 0.99: 4.4}[value]
    logits = np.column_stack([latent(group, rng) for _ in range(OPTIONS)])
    answer = rng.integers(0, OPTIONS, n)
    logits[np.arange(n), answer] += lead
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = powers / powers.sum(axis=1, keepdims=True)
    correct = (probs.argmax(axis=1) == answer).astype(np.float64)
    return World(group, {"correct": correct, "n_options": np.full(n, float(OPTIONS))}, {}, probs, answer)


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
