"""The parts of the Brier score. Murphy, 1973 (J. Applied Meteorology); Stephenson, Coelho, Jolliffe, 2008 (Weather and Forecasting).

Forecasts are binned, [low, high), the last bin closed. Within a bin forecasts differ a little, so that reliability - resolution +
uncertainty is the score only up to the variance of forecasts within bins less twice their covariance with outcomes; resolution that
has these taken off makes the sum exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qualm.runners.contracts.metrics import Floats, Weights, ratio
from qualm.runners.scoring.binning import bin_membership


def events(forecast: Floats, outcome: Floats, over: str) -> tuple[Floats, Floats]:
    """Return (n, m) forecasts and 0/1 outcomes; over options, `outcome` is the right index."""
    if over == "answer":
        return forecast[:, None], outcome[:, None]
    return forecast, (outcome[:, None] == np.arange(forecast.shape[1])).astype(np.float64)


def each_outcome(forecast: Floats, over: str) -> list[Floats]:
    """Return (n,) arrays: all 0 and all 1 if `over` is "answer", else each option's index.

    The likeliest option stands for an option that a question lacks.
    """
    if over == "answer":
        return [np.zeros(len(forecast)), np.ones(len(forecast))]
    # Questions may have fewer options than there are columns; the likeliest stands for those that a question lacks.
    likeliest = forecast.argmax(axis=1)
    return [np.where(forecast[:, k] > 0, k, likeliest).astype(np.float64) for k in range(forecast.shape[1])]


@dataclass(frozen=True)
class Parts:
    """Brier score, its reliability, resolution and uncertainty: (B,) each; NaN without rows."""

    score: Floats
    reliability: Floats
    resolution: Floats
    """Resolution of the binned forecasts (Murphy, 1973)."""
    uncertainty: Floats

    @property
    def exact_resolution(self) -> Floats:
        """Return the resolution with which reliability - resolution + uncertainty is the score."""
        exact: Floats = self.reliability + self.uncertainty - self.score
        return exact


def decompose_brier(forecast: Floats, outcome: Floats, chosen: Floats, weights: Weights, over: str, bins: int) -> Parts:
    """Return the (B,) terms of the Brier score (Parts) over the rows where `chosen` is 1."""
    forecasts, outcomes = events(forecast, outcome, over)
    of_bins, of_events = [], []
    for f, y in zip(forecasts.T, outcomes.T, strict=True):
        inside = bin_membership(f, bins, "netcal") * chosen[:, None]
        of_bins.append(np.stack([inside, inside * (f - y)[:, None], inside * y[:, None]], axis=2).reshape(len(f), 3 * inside.shape[1]))
        of_events.append(np.column_stack([(f - y) ** 2, y, y**2]) * chosen[:, None])
    first = np.column_stack([chosen, *of_events])
    sums = weights @ np.column_stack([first, *of_bins])
    n = sums[:, 0]
    squares, hits, hit_squares = (ratio(s, n[:, None]) for s in np.moveaxis(sums[:, 1 : first.shape[1]].reshape(len(n), -1, 3), 2, 0))
    count, gap, right = np.moveaxis(sums[:, first.shape[1] :].reshape(len(n), -1, 3), 2, 0)
    within = [np.divide(s**2, count, out=np.zeros_like(s), where=count > 0).sum(axis=1) for s in (gap, right)]
    mean_squares = (hits**2).sum(axis=1)
    return Parts(squares.sum(axis=1), ratio(within[0], n), ratio(within[1], n) - mean_squares, hit_squares.sum(axis=1) - mean_squares)
