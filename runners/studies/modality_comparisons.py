"""Does uncertainty react to one modality more than to another? Paired comparisons of means over the perturbations of each.

Two modalities are measured on the same samples and in the same resamples of whole groups, so their difference has a spread of its own.
All pairs, of every metric, estimator, model and data set of a family, are corrected together by max-T (`qualm.runners.scoring.rankings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qualm.registry import MODALITIES
from qualm.runners.scoring.measuring.measured import Measured
from qualm.runners.scoring.measuring.metrics import Metric, metric_of
from qualm.runners.scoring.rankings import BY_MODALITY, FEWEST_GROUPS, Candidate, Rankings, drawn_of, ranked

Place = tuple[str, str, str, str]
"""(model, data set, slice, label)."""


def modality_comparisons(
    means: Mapping[Place, Mapping[str, Measured]],
    groups: Mapping[tuple[str, str], int],
    metrics: Sequence[Metric],
    level: float,
    family: str,
) -> list[dict[str, Any]]:
    """Rows of MODALITY_COMPARISONS: `difference` is the mean of modality `b` minus that of modality `a`.

    Args:
        means: of every label, modality -> its mean over perturbations; all of one data set in the same resamples.
        groups: (model, data set) -> groups of samples; with fewer than 20 nothing is compared.
        level: of the intervals, each of which is of its difference alone.
        family: which tests are corrected together: `metric`, `slice` or `study`.
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
            better = bool(metric.plugin.declares["HIGHER_IS_BETTER"])
            rankings.ranked.append(ranked(place, better, candidates, groups[model, dataset], level))
    left_out = ("variant", "higher_is_better")
    return [{key: value for key, value in row.items() if key not in left_out} for row in rankings.tables()[1].to_pylist()]
