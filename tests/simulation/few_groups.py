"""Other intervals of a share and of AUROC where groups are few, tried and not taken: how often each holds the truth, and how wide it is.

`python -m tests.simulation.few_groups [--samples 1000]`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from qualm.runners.contracts.grouped_weights import Weights
from qualm.runners.plugins.metrics.auroc import auroc
from qualm.runners.scoring.bootstrap import Bootstrap
from qualm.runners.scoring.limits import critical, score_ends, standard_error
from qualm.runners.scoring.ranking import auroc_error
from tests.simulation import worlds

Floats = NDArray[np.float64]
Ends = dict[str, tuple[float, float]]
LEVEL, RESAMPLES = 0.95, 200
CELLS = ((1000, 10, 0.9), (1000, 10, 0.99), (100, 10, 0.5), (100, 50, 0.99), (1000, 50, 0.99))


def by_logit(value: float, error: float, q: float) -> tuple[float, float]:
    """Around the log odds."""
    if not 0 < value < 1:
        return value, value
    reach = q * error / (value * (1 - value))
    return float(expit(logit(value) - reach)), float(expit(logit(value) + reach))


def by_skewness(value: float, apart: Floats, q: float) -> tuple[float, float]:
    """Hall's transformation (1992) of t by the skewness of a sum of groups."""
    groups = len(apart)
    error = math.sqrt(groups / (groups - 1) * float((apart**2).sum()))
    if error < 1e-12:
        return value, value
    skewness = float((apart**3).sum()) * groups**2 / ((groups - 1) * (groups - 2)) / error**3

    def back(t: float) -> float:
        return t if abs(skewness) < 1e-9 else 3 * (float(np.cbrt(1 + skewness * (t - skewness / 6))) - 1) / skewness

    return value - error * back(q), value - error * back(-q)


def freedom_by_kurtosis(apart: Floats) -> float:
    """Degrees of freedom of a variance of as many groups with such tails, 2 to all of them less one."""
    groups, squares = len(apart), apart**2
    if not squares.sum():
        return groups - 1
    kurtosis = groups * float((squares**2).sum() / squares.sum() ** 2)
    return min(groups - 1.0, max(2.0, 2 * groups / max(kurtosis - 1, 0.1)))


def of_share(n: int, groups: int, value: float, rng: np.random.Generator) -> Ends:
    """All intervals of one sample's accuracy."""
    group = worlds.grouped(n, groups, rng)
    right = (worlds.latent(group, rng) < norm.ppf(value)).astype(np.float64)
    mean = float(right.mean())
    apart, q = np.bincount(group, right - mean) / n, critical(LEVEL, groups - 1)
    error = math.sqrt(groups / (groups - 1) * float((apart**2).sum()))
    alone = max(error, math.sqrt(mean * (1 - mean) / n))
    return {
        "now": score_ends(mean, error, q, groups),
        "logit": by_logit(mean, error, q),
        "skewness": by_skewness(mean, apart, q),
        "kurtosis": score_ends(mean, alone, critical(LEVEL, freedom_by_kurtosis(apart)), groups),
    }


def of_auroc(n: int, groups: int, value: float, rng: np.random.Generator) -> Ends:
    """All intervals of one sample's AUROC; none where one class is in fewer than three groups."""
    world = worlds.ranking(n, groups, value, rng)
    doubt, right, group = world.columns["uncertainty"], world.columns["correct"], world.group
    units = min(len(np.unique(group[right == side])) for side in (0, 1))
    if units < 3:
        return {}
    found = float(auroc(doubt, right, Weights(np.ones((1, 1)), np.zeros(n, dtype=np.int64)))[0])
    resampled = np.concatenate([auroc(doubt, right, of) for of in Bootstrap(group, RESAMPLES, 0, str(rng.random())).blocks()])
    left_out = auroc(doubt, right, Weights(np.ones((groups, groups)) - np.eye(groups), group))
    apart = np.nan_to_num(left_out - np.nanmean(left_out))
    wrong = int((right == 0).sum())
    error = max(standard_error(resampled, groups), auroc_error(doubt, wrong, n - wrong, found))
    jackknife = max(error, math.sqrt((groups - 1) / groups * float((apart**2).sum())))
    q = critical(LEVEL, units - 2)
    return {
        "now": score_ends(found, error, q, units),
        "jackknife": score_ends(found, jackknife, q, units),
        "jackknife, logit": by_logit(found, jackknife, q),
        "kurtosis": score_ends(found, error, critical(LEVEL, max(1.0, min(units - 2.0, freedom_by_kurtosis(apart)))), units),
    }


def lines(samples: int) -> Iterator[str]:
    """A line for each cell: of each interval how often it holds, and its mean width."""
    for name, of, times in (("accuracy", of_share, samples), ("auroc", of_auroc, samples // 4)):
        for n, groups, value in CELLS:
            kept: dict[str, list[tuple[bool, float]]] = {}
            for k in range(times):
                for method, (low, high) in of(n, groups, value, np.random.default_rng([77, k, n, groups, int(1000 * value)])).items():
                    kept.setdefault(method, []).append((low - 1e-9 <= value <= high + 1e-9, high - low))
            shares = ", ".join(
                f"{method} {np.mean(pairs, axis=0)[0]:.3f} ({np.mean(pairs, axis=0)[1]:.3f})" for method, pairs in kept.items()
            )
            yield f"{name}, {n:,} questions, {groups} groups, {value:g}: {shares}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    with threadpool_limits(1):
        for line in lines(parser.parse_args().samples):
            print(line, flush=True)


if __name__ == "__main__":
    main()
