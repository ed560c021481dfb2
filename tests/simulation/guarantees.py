"""How often, or by how much, what risk control and conformal sets promise is missed; each promise is an error of at most .10."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from qualm.compiler.results.array_conformal import calibrate
from qualm.runners.contracts.abstentions import Answers
from qualm.runners.plugins.abstentions.learn_then_test import learn_then_test
from qualm.runners.plugins.abstentions.risk_control import risk_control
from tests.simulation.tallies import PROMISE, Outcomes, Question, Row
from tests.simulation.worlds import ALPHA, Floats, latent, sized_groups, sizes_of

ERROR = "error"
HARDER = 0.3
"""How much higher, per unit of the logarithm of a group's size, the nonconformity of its rows is."""
SIZES = {"10 rows each": "ten", "1 or 20 rows, large harder": "uneven", "Pareto to 50 rows, large harder": "Pareto"}


def wrong(confidence: Floats, size: Floats) -> Floats:
    """Return the chance that an answer is wrong: larger groups are harder."""
    return np.asarray(np.minimum(1.0, (1 - confidence) ** 2 * (0.5 + np.minimum(size, 20) / 20)))


def true_risk(threshold: float, sizes: str, answered: bool) -> float:
    """Integrate the share of questions that is answered wrongly, of all or of those answered; confidences are uniform."""
    size, chance = sizes_of(sizes)
    confidence = min(threshold, 1.0) + (1 - min(threshold, 1.0)) * (np.arange(4000) + 0.5) / 4000
    by_size = np.array([wrong(confidence, np.full(1, float(of))).mean() for of in size])
    given = float((by_size * chance * size).sum() / (chance * size).sum())
    return given if answered else given * (1 - min(threshold, 1.0))


def draw_risk(row: Row, rng: np.random.Generator) -> Outcomes:
    """Choose a threshold and compute its true risk."""
    rule, layout, count, shared = str(row[0]), str(row[1]), int(row[2]), float(row[3])
    group = sized_groups(SIZES[layout], count, rng)
    size = np.bincount(group)[group].astype(np.float64)
    confidence = norm.cdf(latent(group, rng, shared))
    correct = (norm.cdf(latent(group, rng, shared)) >= wrong(confidence, size)).astype(np.float64)
    fit = Answers(confidence, correct, np.zeros(len(group)), np.zeros(len(group)), group)
    answered = rule.endswith("answered")
    chosen = (
        risk_control(fit, alpha=ALPHA)
        if rule == "risk_control"
        else learn_then_test(fit, alpha=ALPHA, delta=ALPHA, risk="answered" if answered else "all")
    )
    risk = true_risk(chosen.threshold, SIZES[layout], answered) if chosen.attained else 0.0
    return {("", ERROR): (risk if rule == "risk_control" else float(risk > ALPHA)) if chosen.attained else None}


def draw_sets(row: Row, rng: np.random.Generator) -> Outcomes:
    """Calibrate LAC sets and compute how often a question of a new group is not covered, each group counting once."""
    layout, count, shared = str(row[1]), int(row[2]), float(row[3])
    harder = HARDER if "harder" in layout else 0.0
    group = np.arange(count) if layout == "single rows" else sized_groups(SIZES[layout], count, rng)
    score = norm.cdf(latent(group, rng, shared) + harder * np.log(np.bincount(group)[group]))
    probabilities = np.column_stack([1 - score, score])
    found = calibrate(probabilities, np.zeros(len(group)), groups=group, alpha=ALPHA, empty_set="empty").threshold
    if np.isinf(found):
        return {("", ERROR): None}
    size, chance = sizes_of(SIZES[layout]) if layout != "single rows" else (np.ones(1), np.ones(1))
    missed = norm.sf(norm.ppf(found) - harder * np.log(size))
    return {("", ERROR): float(missed @ chance)}


def draw(row: Row, rng: np.random.Generator) -> Outcomes:
    return draw_sets(row, rng) if row[0] == "conformal sets" else draw_risk(row, rng)


QUESTION = Question(
    "guarantees",
    ("rule", "groups", "number of groups", "correlation"),
    (
        *(
            (rule, layout, count, shared)
            for rule in ("risk_control", "learn_then_test, all", "learn_then_test, answered")
            for layout in SIZES
            for count, shared in ((50, 0.5), (200, 0.5), (800, 0.5), (800, 1.0))
        ),
        *(("conformal sets", "single rows", count, 0.0) for count in (5, 10, 20, 50)),
        *(("conformal sets", layout, count, shared) for layout in SIZES for count in (5, 10, 20, 50) for shared in (0.5, 1.0)),
    ),
    lambda row: [("", ERROR)],
    draw,
    {ERROR: PROMISE},
    times=5,
)
