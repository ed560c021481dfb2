"""Kinds of answers that a calibrator is fitted on and applied to: all multiple choice or all open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry.plugins import registry
from qualm.runners.contracts.grouped_weights import Floats, Weights
from qualm.runners.contracts.returned import call_plugin, check_array
from qualm.runners.runtime.precision import EQUAL
from qualm.runners.scoring.calibration.drawing import HeldDraws

MIN_PROBABILITY = 1e-300
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Method:
    """A calibrator plugin with its label and arguments from the spec."""

    label: str
    plugin: registry.Plugin
    function: Callable[..., Any]
    args: Mapping[str, Any]
    interval: Callable[..., Any] | None = None
    """Both ends between which each probability lies, of a method that says so."""

    @classmethod
    def from_ref(cls, ref: Mapping[str, Any]) -> Method:
        plugin, function = registry.get("calibrators", ref["plugin"]), registry.load("calibrators", ref["plugin"])
        return cls(ref["label"], plugin, function, ref["args"], getattr(sys.modules[function.__module__], "interval", None))

    def ends(self, score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats | None:
        """Return (2, m) lower and upper ends of each probability; None if the method gives none."""
        if self.interval is None:
            return None
        returned = call_plugin(self.plugin, f"'{self.label}', interval", partial(self.interval, score, right, weights, at, **self.args))
        return check_array(self.plugin, f"'{self.label}', both ends of each probability", returned, (2, 1, len(at)))[:, 0]

    def __call__(self, score: Floats, right: Floats, weights: Weights, at: Floats) -> Floats:
        """Fit in each resample, return (B, m) or (B, m, K) probabilities at `at`; all NaN: no fit."""
        # Of several scores there is one probability, of options one for each.
        there = ~np.isnan(at) if at.ndim == right.ndim else ~np.isnan(at).any(axis=1)
        shape = (weights.shape[0], *there.shape)
        returned = call_plugin(self.plugin, f"'{self.label}'", partial(self.function, score, right, weights, at, **self.args))
        values = check_array(self.plugin, f"'{self.label}', a probability of each score in each resample", returned, shape)
        outside = ~((values >= 0) & (values <= 1)) & there
        # One impossible probability makes the whole fit of a resample worthless.
        values[outside.reshape(len(values), -1).any(axis=1)] = np.nan
        return values


@dataclass(eq=False)
class KindOfAnswers:
    """Multiple-choice or open answers: rows to fit a calibrator on, and rows to recalibrate."""

    method: Method
    rows: Ints
    """That calibrate, with a score and a truth; with `held`, rows of those answers."""
    score: Floats
    """(n,), of each of these rows; (n, K) of options where they are multiple choice; (n, d) of several scores that are combined."""
    right: Floats
    """(n,); (n, K) of options."""
    at: Ints
    """Rows that are read."""
    scores: Floats
    """(m,), (m, K) or (m, d) of each of those."""
    truth: Ints
    """(m,) of these: the place of the right option, -1 where none is known."""
    held: HeldDraws | None = None
    """Draws of calibration answers, if none of them is among the scored ones."""

    @property
    def of_options(self) -> bool:
        return self.right.ndim == 2

    def probabilities(self, weights: Weights, start: int | None = None) -> Floats:
        """Fit under each row of `weights`; return (B, m) or (B, m, K) probabilities of `scores`.

        `start` is the number of the first of these resamples, None for the sample itself; only held-out answers read it.
        """
        drawn = weights.rows(self.rows) if self.held is None else self.held.weights(self.rows, len(weights.counts), start)
        if not self.of_options or self.method.plugin.declares.get("OPTIONS", False):
            return self.method(self.score, self.right, drawn, self.scores)
        # each option against the rest, all by one fit: letters are no classes with a meaning of their own
        own, option = np.nonzero(~np.isnan(self.score))
        read = ~np.isnan(self.scores)
        odds, at = (log_odds(np.exp(of)) for of in (self.score[own, option], self.scores[read]))
        values = self.method(odds, self.right[own, option], drawn.rows(own), at)
        shares = np.full((len(values), *self.scores.shape), np.nan)
        shares[:, read] = values
        totals = np.nansum(shares, axis=2, keepdims=True)
        even = 1 / read.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Where every option is given 0 nothing is known, and all are equally likely.
            shared = np.where(totals > 0, shares / totals, np.where(np.isnan(shares), np.nan, even))
        shared[np.isnan(values).all(axis=1)] = np.nan
        return np.asarray(shared)

    def columns(self, weights: Weights, n: int, start: int | None = None) -> dict[str, Floats]:
        """Return (B, n) `confidence`, for options also `predicted`, `correct`; NaN in other rows."""
        values = self.probabilities(weights, start)
        if values.ndim == 2:
            return {"confidence": _spread(values, self.at, n)}
        filled = np.where(np.isnan(values), -1.0, values)
        predicted, largest = np.round(filled, EQUAL).argmax(axis=2).astype(np.float64), filled.max(axis=2)
        predicted[largest < 0] = largest[largest < 0] = np.nan
        correct = np.where(self.truth >= 0, (predicted == self.truth).astype(np.float64), np.nan)
        correct[np.isnan(largest)] = np.nan
        return {name: _spread(of, self.at, n) for name, of in (("confidence", largest), ("predicted", predicted), ("correct", correct))}


def _spread(values: Floats, rows: Ints, n: int) -> Floats:
    spread = np.full((len(values), n), np.nan)
    spread[:, rows] = values
    return spread


def log_odds(p: Floats) -> Floats:
    """Return log(p / (1 - p)), finite: 0 counts as 1e-300, 1 as the largest double below it."""
    least, most = MIN_PROBABILITY, float(np.nextafter(1.0, 0.0))
    inside = np.clip(p, least, most)
    return np.asarray(np.log(inside) - np.log1p(-inside))
