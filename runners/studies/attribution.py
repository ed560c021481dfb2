"""Which modality a sample's uncertainty is attributed to: image, text, or the match of the two.

A simple rule, stated here and nowhere else. For one model and one estimator:

1. d = u_perturbed - u_clean, of every sample under every perturbation.
2. z = (d - mean of d) / deviation of d, under each perturbation over all samples of the data set (of all labelled subsets together,
   since a subset of one modality has nothing to stand out from): a strong perturbation moves everything and would else get
   everything; a z says how much more than usual this sample moved.
3. A modality's z is the mean over its perturbations.
4. The modality of the largest z gets it, if it leads the next by at least MARGIN; else the sample is undecided.

It needs perturbations of two modalities. It is relative: some modality always moves more than the others, even in a
sample that is certain, and it can be no better than the perturbations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qualm.registry import CLEAN, MODALITIES
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.runtime.precision import result
from qualm.runners.scoring.bootstrap import Bootstrap

UNDECIDED = "undecided"
NOT_UNCERTAIN = CLEAN
"""A label that says of a sample that it is uncertain in no modality: shown, but no attribution of it is right or wrong."""
MARGIN = 0.25
"""In standard deviations of change."""
SLACK = 1e-9


def standardised(change: Floats) -> Floats:
    """(d - mean) / population standard deviation over the finite entries; NaN elsewhere, and all NaN where nothing varies.

    >>> standardised(np.array([1.0, 3.0, np.nan])).tolist()
    [-1.0, 1.0, nan]
    """
    finite = np.isfinite(change)
    spread = change[finite].std() if finite.any() else 0.0
    if not spread > SLACK * max(1e-300, float(np.abs(change[finite]).max(initial=0.0))):
        return np.full(len(change), np.nan)
    scores: Floats = np.where(finite, (np.where(finite, change, 0.0) - change[finite].mean()) / spread, np.nan)
    return scores


def by_modality(changes: Mapping[str, Floats], modality: Mapping[str, str]) -> dict[str, Floats]:
    """Mean standardised change of each sample under the perturbations of each modality, over those that it has.

    Args:
        changes: variant -> (n,) change of uncertainty, NaN where a sample lacks one.
        modality: variant -> image, text or cross.
    """
    n = len(next(iter(changes.values()), np.empty(0)))
    means = {}
    for name in MODALITIES:
        of = np.stack([standardised(d) for v, d in changes.items() if modality[v] == name] or [np.full(n, np.nan)])
        finite = ~np.isnan(of)
        with np.errstate(invalid="ignore"):
            means[name] = np.where(finite.any(axis=0), np.where(finite, of, 0.0).sum(axis=0) / finite.sum(axis=0), np.nan)
    return means


def attributed(moved: Mapping[str, Floats], margin: float = MARGIN) -> list[str | None]:
    """The modality that each sample's uncertainty is attributed to; None where fewer than two modalities have a value."""
    table = np.stack([moved[name] for name in MODALITIES], axis=1)
    modalities: list[str | None] = []
    for row in table:
        order = sorted((i for i in range(len(row)) if not np.isnan(row[i])), key=lambda i: -row[i])
        if len(order) < 2:
            modalities.append(None)
        else:
            modalities.append(MODALITIES[order[0]] if row[order[0]] - row[order[1]] >= margin else UNDECIDED)
    return modalities


def labels(samples: Samples, of_dataset: str | None = None) -> list[str | None]:
    """Which modality each sample is known to be uncertain in: image, text, cross, or clean for none.

    By what the spec selects (`where: image`, where the card has a subset of that name), else by `meta.modality`, else by a
    part of the category; None where nothing says so.
    """
    names = {*MODALITIES, NOT_UNCERTAIN}
    if of_dataset in names:
        return [of_dataset] * samples.n
    by_meta = samples.values("modality")
    parts = [next((p for p in (c or "").split("/") if p in names), None) for c in samples.values("category")]
    return [m if m in names else c for m, c in zip(by_meta, parts, strict=True)]


def accuracy(
    truth: Sequence[str | None], attributions: Sequence[str | None], groups: NDArray[Any], times: int, level: float, seed: int, *names: str
) -> dict[str, Any]:
    """How often the modality attributed is the one that the label names.

    Returns:
        `n` labelled samples with an attribution (`clean` ones are not among them), `n_undecided` of them, `accuracy` (higher is
        better; undecided counts as wrong) with its percentile interval over resamples of groups, `accuracy_decided` over those
        decided, and `floor`: the accuracy of always naming the most frequent label. Null where n is 0.
    """
    rows = [i for i, (t, f) in enumerate(zip(truth, attributions, strict=True)) if t in MODALITIES and f is not None]
    truths = [truth[i] for i in rows]
    n, undecided = len(rows), sum(attributions[i] == UNDECIDED for i in rows)
    if not n:
        return {"n": 0, "n_undecided": 0, **dict.fromkeys(("accuracy", "low", "high", "accuracy_decided", "floor"))}
    right = np.array([truth[i] == attributions[i] for i in rows], dtype=np.float64)
    bootstrap = Bootstrap(groups[rows], times, seed, "blame", *names)
    drawn = [(block @ right) / (block @ np.ones(n)) for block in bootstrap.blocks()]
    low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2]) if bootstrap.groups > 1 and drawn else (None, None)
    return {
        "n": n,
        "n_undecided": undecided,
        "accuracy": float(right.mean()),
        "low": None if low is None else result(low),
        "high": None if high is None else result(high),
        "accuracy_decided": float(right.sum() / (n - undecided)) if n > undecided else None,
        "floor": max(truths.count(m) for m in MODALITIES) / n,
    }
