"""Paired comparisons of modalities: does uncertainty react more to perturbations of one than of another?

Two modalities are measured on the same samples and in the same resamples of whole groups, so their difference has its own standard error.
All pairs of a multiple-testing family are corrected together by max-T (`qualm.runners.scoring.rankings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qualm.registry import MODALITIES
from qualm.runners.scoring.measuring.measured import Measured
from qualm.runners.scoring.measuring.metrics import Metric, metric_of
from qualm.runners.scoring.rankings import BY_MODALITY, FEWEST_GROUPS, Candidate, Rankings, drawn_of, ranked

Place = tuple[str, str, str, str]
"""(model, dataset, slice, label)."""


def modality_comparisons(
    means: Mapping[Place, Mapping[str, Measured]],
    groups: Mapping[tuple[str, str], int],
    metrics: Sequence[Metric],
    level: float,
    family: str,
) -> list[dict[str, Any]]:
    """Compute the rows of MODALITY_COMPARISONS; `difference` is mean `b` minus mean `a`.

    Args:
        means: of every label, modality -> its mean over perturbations; all of one dataset in the same resamples.
        groups: (model, dataset) -> groups of samples; with fewer than 20 nothing is compared.
        level: of the intervals, each for its difference alone.
        family: multiple-testing family: `metric`, `slice` or `study`.
    """
    rankings = Rankings(metrics, level, family)
    for (model, dataset, part, label), of in means.items():
        metric = metric_of(label, metrics)
        candidates = [
            Candidate(modality, one.value, drawn, one.n, one.bounds)
            for modality in MODALITIES
            if (one := of.get(modality)) is not None and (drawn := drawn_of(metric, one)) is not None
        ]
        if len(candidates) > 1 and groups[model, dataset] >= FEWEST_GROUPS:
            place = (dataset, part, label, "", BY_MODALITY, model)
            better = bool(metric.plugin.declares["higher_is_better"])
            rankings.ranked.append(ranked(place, better, candidates, groups[model, dataset], level))
    left_out = ("variant", "higher_is_better")
    return [{key: value for key, value in row.items() if key not in left_out} for row in rankings.tables()[1].to_pylist()]
