"""How often the test and the interval of a recalibrated value less the raw one are right.

The truth is the mean over many draws of the questions that calibrate. The metric of each fit is computed here from the chance that each of
very many answers is right: nothing of the product but the fit itself is in it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.data.calibration_split import calibration_rows
from qualm.runners.scoring.calibration.comparisons import Comparisons
from qualm.runners.scoring.calibration.fits import FittedOn, Scores, recalibrations
from qualm.runners.scoring.calibration.kinds import Method, log_odds
from qualm.runners.scoring.families import METRIC
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.evaluate import evaluate
from qualm.runners.scoring.measuring.intervals import intervals
from qualm.runners.scoring.measuring.metrics import read_metrics
from tests.simulation.cells import LEVEL, RESAMPLES, cell_of, slice_of
from tests.simulation.single_values import holds
from tests.simulation.tallies import COVERAGE, Aim, Outcomes, Question, Row
from tests.simulation.worlds import Floats, Ints, World, latent, layout_groups

CENTRE, SCALE = 0.7, 1.1
"""Of the log odds of the chance to be right."""
REFS = [{"label": name, "plugin": name, "args": args} for name, args in
        (("temperature", {}), ("platt", {"prior_correction": True}), ("isotonic", {}), ("histogram", {"bins": 10}))]  # fmt: skip
METRICS = ("brier", "ece")
FITS, ENDLESS = 100, 20_000
TOLD, HOLDS = "p≤.05", "interval"
CALIBRATED, TOO_EXTREME = "raw is calibrated", "raw log odds twice too large"
ANY = Aim(0.0, 1.0, "power is shown without an aim", "", "")
"""Recalibrated confidences truly differ from raw ones."""


def draw_answers(world: str, n: int, layout: str, rng: np.random.Generator) -> tuple[Ints, Floats, Floats, Floats]:
    """Return groups, chance to be right, raw confidence, and whether right."""
    group = layout_groups(layout, n, rng)
    odds = CENTRE + SCALE * latent(group, rng, 0.0 if layout == "single" else 0.3)
    chance, confidence = expit(odds), expit((1 if world == CALIBRATED else 2) * odds)
    return group, chance, confidence, (rng.random(n) < chance).astype(np.float64)


def metrics_of(chance: Floats, confidence: Floats) -> dict[str, float]:
    """Return the Brier score and the ECE with 15 bins of very many answers of known chance."""
    place = np.clip(np.ceil(confidence * 15) - 1, 0, 14).astype(int)
    ece = np.abs(np.bincount(place, chance - confidence, 15)).sum() / len(chance)
    return {"brier": float((chance * (1 - confidence) ** 2 + (1 - chance) * confidence**2).mean()), "ece": float(ece)}


@cache
def truths(world: str, n: int, layout: str) -> dict[tuple[str, str], float]:
    """Return by metric and calibrator its mean over fits, less the raw confidence's."""
    _, chance, confidence, _ = draw_answers(world, ENDLESS, "single", np.random.default_rng(1))
    raw = metrics_of(chance, confidence)
    found: dict[tuple[str, str], list[float]] = {}
    for k in range(FITS):
        group, _, asked, correct = draw_answers(world, n, layout, np.random.default_rng([2, k]))
        rows = calibration_rows(group, 0.5, k, "groups")
        once = Weights(np.ones((1, 1)), np.zeros(int(rows.sum()), dtype=np.int64))
        for ref in REFS:
            fitted = Method.from_ref(ref)(log_odds(asked)[rows], correct[rows], once, log_odds(confidence))[0]
            for metric, value in metrics_of(chance, fitted).items():
                found.setdefault((metric, str(ref["label"])), []).append(value - raw[metric])
    return {key: float(np.nanmean(values)) for key, values in found.items()}


def draw(row: Row, rng: np.random.Generator) -> Outcomes:
    """Draw answers, half of whose groups calibrate, and compare raw with each calibrator."""
    world, n, layout = str(row[0]), int(row[1]), str(row[2])
    group, _, confidence, correct = draw_answers(world, n, layout, rng)
    seed = int(rng.integers(2**31))
    cell = cell_of(World(group, {"correct": correct, "confidence": confidence}))
    scores, none, nothing = Scores(confidence, correct, None, {}), np.zeros(n, dtype=bool), np.full(n, -1)
    setting = {"label": "c", "methods": REFS, "of": [""], "refits": RESAMPLES}
    fitted_on = FittedOn(scores, none, nothing, cell.samples.groups, calibration_rows(cell.samples.groups, 0.5, seed, "groups"))
    cell.recalibrations = list(recalibrations(setting, fitted_on, scores, none, nothing))
    part = slice_of(cell.samples, seed)
    named = read_metrics([{"label": name, "plugin": name, "args": {}} for name in METRICS])
    values = evaluate(named, cell, part)
    comparisons = Comparisons(named, LEVEL, METRIC)
    comparisons.add(cell, part, values, intervals([one for _, one in values], LEVEL, part.bootstrap.groups))
    found = {}
    for of in comparisons.rows():
        if of["a"] == "raw":
            name, metric = str(of["b"]), str(of["metric"])
            truth = truths(world, n, layout)[metric, name]
            low, high, p = (np.nan if of[key] is None else float(str(of[key])) for key in ("low", "high", "p"))
            found[metric, f"{name}: {TOLD}"] = None if np.isnan(p) else float(p <= 0.05)
            found[metric, f"{name}: {HOLDS}"] = holds(Limits(low, high), truth)
    return found


AIMS = {f"{ref['label']}: {what}": aim for ref in REFS for what, aim in ((TOLD, ANY), (HOLDS, COVERAGE))}
QUESTION = Question(
    "recalibrations",
    ("world", "questions", "groups", "metric"),
    tuple((world, n, layout) for world in (CALIBRATED, TOO_EXTREME) for n, layout in ((400, "single"), (400, "50"))),
    lambda row: [(metric, column) for metric in METRICS for column in AIMS],
    draw,
    AIMS,
)
