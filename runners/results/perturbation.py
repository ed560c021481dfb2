"""Tables of a spec with perturbations, gathered while the `score` stage visits the cells, so that nothing is resampled twice.

They show which perturbation changes which estimator, whether that predicts wrong answers, and which modality uncertainty comes from.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import MODALITIES
from qualm.registry.sample import ATTRIBUTIONS, BLAMES, CLEAN, LABELLED_SCORES, MODALITY_COMPARISONS, RANK_STABILITY
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.results import attribution
from qualm.runners.results.rank_stability import stability
from qualm.runners.runtime.records import write_csv
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.limits import Limits
from qualm.runners.scoring.measuring.intervals import intervals, value_columns
from qualm.runners.scoring.measuring.measured import Measured, mean_bounds, mean_of_arrays, or_null
from qualm.runners.scoring.measuring.metrics import Metric, metric_of
from qualm.runners.scoring.measuring.slices import CHANGED
from qualm.runners.scoring.rankings import BY_MODALITY, MIN_GROUPS, Candidate, Rankings, ranked, ranking_resamples

ALL = "all"
REFLECTION, TIES = "uncertainty_reflection_rate", "uncertainty_tie_rate"
CONSISTENCY, HALLUCINATION = "hallucination_change_correlation", "hallucination_rate"
PERTURBED = "auroc_perturbed"
UNCHANGED = "unchanged_input_rate"
ACCURACIES = ("accuracy", "vqa_accuracy", "lave_idk_accuracy")
SWEPT = (REFLECTION, *ACCURACIES, "mean_uncertainty")
RANKED = ("auroc", REFLECTION, CONSISTENCY)
"""Metrics that rank estimators: `auroc` on clean inputs, the others by their mean over all perturbations."""
MEANS = (PERTURBED, REFLECTION, CONSISTENCY, HALLUCINATION, *ACCURACIES, "coverage", "set_size")
OF_BOTH = (PERTURBED, REFLECTION, CONSISTENCY, HALLUCINATION)
"""Metrics of pairs of a perturbed and a clean answer."""
NEEDED = frozenset({*SWEPT, *RANKED, *MEANS, TIES, UNCHANGED})

_WHERE = ["model", "dataset"]
_VALUE = ["value", "low", "high", "n", "n_unscored"]
_GRID = [*_WHERE, "variant", "modality", "metric", "estimator", *_VALUE]
_CHANGED = ["value_changed", "low_changed", "high_changed", "n_changed", "unchanged_rate"]
"""Fields over the samples whose input is changed; empty if that is not recorded."""
FIELDS = {
    "sweeps": [*_WHERE, "perturbation", "modality", "parameter", "strength", "variant", "metric", "estimator", *_VALUE, "clean"],
    "urr": [*_GRID, "tie_rate", "p_adjusted", "why", *_CHANGED, "p_changed", "collapsed"],
    "hcc": [*_GRID, "hallucination_rate", "p_adjusted", "why", *_CHANGED, "p_changed", "collapsed"],
}
"""Columns of the CSV files behind `dvc plots` and the report; an empty field is undefined."""

Where = tuple[str, str]


class PerturbationStudy:
    """Collects the scores of every model and variant, and makes the perturbation tables."""

    def __init__(self, params: Mapping[str, Any], metrics: Sequence[Metric], seed: int) -> None:
        """Take variants, modality subsets and interval settings from score-stage parameters."""
        self.variants: list[dict[str, Any]] = params["variants"]
        self.modality = {v["variant"]: str(v["modality"]) for v in self.variants}
        self.perturbation = {v["variant"]: str(v["plugin"]) for v in self.variants}
        self.labelled: dict[str, dict[str, str]] = params.get("labelled", {})
        self.family = str(params.get("family", "study"))
        self.level: float = params["interval"]["level"]
        self.times: int = params["interval"]["bootstrap"]
        self.metrics, self.seed = metrics, seed
        self.measured: dict[tuple[Where, str, str], Measured] = {}
        self.limits: dict[tuple[Where, str, str], Limits] = {}
        self.changed: dict[tuple[Where, str, str], tuple[Measured, Limits]] = {}
        """Measures over the samples whose input is changed, for variants that leave some unchanged."""
        self.collapsed: dict[tuple[Where, str], str] = {}
        """(where, variant) -> why the model collapses there, which keeps it out of means."""
        self.groups: dict[Where, int] = {}
        self.samples: dict[str, Samples] = {}
        self.p: dict[tuple[str, str, str, str, str], float | None] = {}
        """(model, dataset, variant, slice, metric) -> corrected p-value of a test, filled in later."""
        self.changes: dict[str, dict[str, dict[tuple[str, str], Floats]]] = {}
        """model -> dataset -> (estimator, variant) -> change of uncertainty; under CLEAN the uncertainty itself."""

    def add(self, cell: Cell, groups: int, metrics: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        where = (cell.model, cell.samples.name)
        self.groups[where] = groups
        self.samples[cell.samples.name] = cell.samples
        for (label, measured), limit in zip(metrics, limits, strict=True):
            if self._split(label)[0] in NEEDED:
                self.measured[where, cell.variant, label] = measured
                self.limits[where, cell.variant, label] = limit
        if cell.collapsed:
            self.collapsed[where, cell.variant] = cell.collapsed
        changes = self.changes.setdefault(cell.model, {}).setdefault(cell.samples.name, {})
        for name in cell.estimators_of_both:
            clean = cell.clean_uncertainties[name]
            with np.errstate(invalid="ignore"):
                change = cell.uncertainties[name] - clean
            changes[name, cell.variant] = np.where(np.isfinite(change), change, np.nan)
            changes[name, CLEAN] = np.where(np.isfinite(clean), clean, np.nan)

    def add_changed(self, cell: Cell, metrics: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        for (label, measured), limit in zip(metrics, limits, strict=True):
            if self._split(label)[0] in NEEDED:
                self.changed[(cell.model, cell.samples.name), cell.variant, label] = measured, limit

    def _over_changed(self, key: tuple[Where, str, str]) -> tuple[Measured, Limits] | None:
        """Return (value, limits) over samples with changed input; None if those are unknown."""
        if key in self.changed:
            return self.changed[key]
        unchanged = self.measured.get((*key[:2], UNCHANGED))
        return (self.measured[key], self.limits[key]) if unchanged is not None and unchanged.value == 0 else None

    def _split(self, label: str) -> tuple[str, str, str]:
        metric = metric_of(label, self.metrics)
        return metric.function.__name__, metric.label, label[len(metric.label) + 1 : -1]

    def _values_of_plugins(self, *plugins: str) -> Iterator[tuple[Where, str, str, tuple[str, str, str]]]:
        for where, variant, label in self.measured:
            parts = self._split(label)
            if parts[0] in plugins:
                yield where, variant, label, parts

    def _numbers(self, key: tuple[Where, str, str]) -> dict[str, Any]:
        measured, ends = self.measured[key], self.limits[key]
        values = {"value": measured.value, "low": ends.low, "high": ends.high}
        return {k: or_null(v) for k, v in values.items()} | {"n": measured.n, "n_unscored": measured.n_unscored}

    def sweeps(self) -> list[dict[str, Any]]:
        """Return sweep rows, one per strength, metric and model, with the clean value."""
        rows = []
        for sweep in find_sweeps(self.variants):
            at = {variant: strength for strength, variant in sweep.points}
            same = {"perturbation": sweep.perturbation, "modality": sweep.modality, "parameter": sweep.parameter}
            for where, variant, label, (_, metric, rest) in self._values_of_plugins(*SWEPT):
                if variant in at:
                    clean = self.measured.get((where, CLEAN, label))
                    row = dict(zip(_WHERE, where, strict=True)) | same | {"strength": at[variant], "variant": variant}
                    row |= {"metric": metric, "estimator": rest, "clean": or_null(clean.value) if clean else None}
                    rows.append(row | self._numbers((where, variant, label)))
        return rows

    def urr(self) -> list[dict[str, Any]]:
        """Return a row (dict) of uncertainty reflection and tie rate per variant and estimator."""
        return self._grid(REFLECTION, TIES, "tie_rate")

    def hcc(self) -> list[dict[str, Any]]:
        """Return a row of hallucination change correlation and rate per variant and estimator."""
        return self._grid(CONSISTENCY, HALLUCINATION, "hallucination_rate")

    def _grid(self, plugin: str, companion: str, beside: str) -> list[dict[str, Any]]:
        rows = []
        for where, variant, label, (_, metric, rest) in self._values_of_plugins(plugin):
            measured = self.measured[where, variant, label]
            other = self._companion(where, variant, metric.replace(plugin, companion, 1), rest)
            row: dict[str, Any] = dict(zip(_WHERE, where, strict=True)) | {"variant": variant, "modality": self.modality[variant]}
            row |= {"metric": metric, "estimator": rest} | self._numbers((where, variant, label))
            row |= {beside: or_null(other.value) if other else None, "p_adjusted": self.p.get((*where, variant, ALL, label))}
            row |= {"why": measured.why, "collapsed": self.collapsed.get((where, variant))}
            rows.append(row | self._changed_numbers((where, variant, label)))
        return rows

    def _changed_numbers(self, key: tuple[Where, str, str]) -> dict[str, Any]:
        (where, variant, label), of_changed = key, self._over_changed(key)
        numbers: dict[str, Any] = dict.fromkeys([*_CHANGED, "p_changed"])
        if of_changed is not None:
            measured, ends = of_changed
            values = {"value_changed": measured.value, "low_changed": ends.low, "high_changed": ends.high}
            own = (*where, variant, CHANGED, label)
            p = self.p[own] if own in self.p else self.p.get((*where, variant, ALL, label))
            numbers |= {k: or_null(v) for k, v in values.items()} | {"n_changed": measured.n, "p_changed": p}
        unchanged = self.measured.get((where, variant, UNCHANGED))
        return numbers | {"unchanged_rate": or_null(unchanged.value) if unchanged else None}

    def _companion(self, where: Where, variant: str, metric: str, rest: str) -> Measured | None:
        labels = (f"{metric}[{rest}]", metric, f"{metric.partition('@')[0]}[{rest}]", metric.partition("@")[0])
        return next((m for label in labels if (m := self.measured.get((where, variant, label)))), None)

    def modality_scores(self) -> list[dict[str, Any]]:
        """Return LABELLED_SCORES rows of modalities: means over their perturbations.

        The variants of one perturbation are averaged first, without those under which the model collapses. Metrics that pair the
        perturbed answer with the clean one are given over all samples and, as slice `changed`, over those whose input is changed.
        """
        rows = []
        for (where, modality, part, label), of in self._by_modality().items():
            one = self._mean(where, of)
            ends = intervals([one], self.level, self.groups[where])[0]
            row = dict(zip(_WHERE, where, strict=True)) | {"variant": modality, "slice": part, "metric": label}
            left_out = ", ".join(v for v in of if (where, v) in self.collapsed) or None
            # A log's own verdicts are compared variant by variant, in the table of scores.
            rows.append(row | {"collapsed": left_out, "disputed": None, "caution": None} | value_columns(one, ends, self.level))
        return rows

    def _by_modality(self) -> dict[tuple[Where, str, str, str], dict[str, Measured]]:
        """Return (where, modality or clean, slice, label) -> variant -> measured value."""
        parts: dict[tuple[Where, str, str, str], dict[str, Measured]] = {}
        for where, variant, label, (plugin, _, _) in self._values_of_plugins(*MEANS, UNCHANGED):
            key = (where, variant, label)
            modality = self.modality.get(variant, CLEAN)
            parts.setdefault((where, modality, ALL, label), {})[variant] = self.measured[key]
            if variant != CLEAN and plugin in OF_BOTH and (of_changed := self._over_changed(key)) is not None:
                parts.setdefault((where, modality, CHANGED, label), {})[variant] = of_changed[0]
        return parts

    def modality_comparisons(self) -> list[dict[str, Any]]:
        """Return the rows of MODALITY_COMPARISONS, over the changed samples if known."""
        chosen: dict[tuple[Where, str], dict[str, dict[str, Measured]]] = {}
        for (where, modality, part, label), of in self._by_modality().items():
            if modality != CLEAN and self._split(label)[0] in OF_BOTH:
                chosen.setdefault((where, label), {}).setdefault(modality, {})[part] = self._mean(where, of)
        means = {
            (*where, CHANGED if any(CHANGED in parts for parts in of.values()) else ALL, label): {
                modality: parts.get(CHANGED, parts[ALL]) for modality, parts in of.items()
            }
            for (where, label), of in chosen.items()
        }
        return modality_comparisons(means, self.groups, self.metrics, self.level, self.family)

    def _mean(self, where: Where, of: Mapping[str, Measured]) -> Measured:
        return mean_over_perturbations({v: m for v, m in of.items() if (where, v) not in self.collapsed}, self.perturbation)

    def rank_stability(self) -> list[dict[str, Any]]:
        parts: dict[tuple[str, str, str], dict[str, dict[str, Measured]]] = {}
        for where, variant, label, (plugin, metric, rest) in self._values_of_plugins(*RANKED):
            if rest and (variant == CLEAN) == (plugin == "auroc"):
                parts.setdefault((metric, *where), {}).setdefault(rest, {})[variant] = self.measured[where, variant, label]
        tables = {
            (metric, model, dataset): {e: _drawn(self._mean((model, dataset), of)) for e, of in by_estimator.items()}
            for (metric, model, dataset), by_estimator in parts.items()
        }
        return list(stability(tables, self.level))

    def attribution(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rows of ATTRIBUTIONS and the rows of BLAMES.

        A model needs perturbations and labels of two modalities. Changes under which it collapses on a dataset are left out there.
        """
        samples: list[dict[str, Any]] = []
        summary: list[dict[str, Any]] = []
        for model, by_dataset in self.changes.items():
            usable = {
                name: {key: of for key, of in changes.items() if ((model, name), key[1]) not in self.collapsed}
                for name, changes in by_dataset.items()
                if changes
            }
            if len({m for of in usable.values() for _, v in of if (m := self.modality.get(v)) in MODALITIES}) < 2:
                continue
            of = {name: attribution.attribution_features(changes, self.modality, self.samples[name].n) for name, changes in usable.items()}
            truth = [t for name in of for t in attribution.known_modalities(self.samples[name], self.labelled.get(name))]
            groups = [g for name in of for g in _groups(self.samples[name])]
            if not attribution.has_enough_groups(truth, groups):
                continue
            kinds = [k for name in of for k in self.samples[name].values(attribution.KIND)]
            read = _stack_features(of, {name: self.samples[name].n for name in of})
            probabilities = attribution.modality_probabilities(read, truth, groups)
            ids = [(name, i) for name in of for i in self.samples[name].ids.to_pylist()]
            samples += _attributions(model, ids, probabilities, truth)
            for held_out, by in (
                (attribution.GROUP, probabilities),
                (attribution.GROUP_AND_KIND, attribution.cross_fitted(read, truth, groups, kinds)),
            ):
                agreed = attribution.agreement(truth, by, groups, self.times, self.level, self.seed, model, held_out)
                if agreed["n"]:
                    summary.append({"model": model, "held_out": held_out} | agreed)
        return samples, summary

    def tables(self) -> dict[str, tuple[list[dict[str, Any]], pa.Schema]]:
        """Return (rows, schema) of every table, by the key of its output."""
        samples, summary = self.attribution()
        return {
            "modality_scores": (self.modality_scores(), LABELLED_SCORES),
            "modality_comparisons": (self.modality_comparisons(), MODALITY_COMPARISONS),
            "rank_stability": (self.rank_stability(), RANK_STABILITY),
            "attributions": (samples, ATTRIBUTIONS),
            "blames": (summary, BLAMES),
        }

    def write(self, name: str, path: Path) -> None:
        rows = {"sweeps": self.sweeps, "urr": self.urr, "hcc": self.hcc}[name]()
        write_csv(path, FIELDS[name], rows)


def mean_over_perturbations(by_variant: Mapping[str, Measured], perturbation_of_variant: Mapping[str, str]) -> Measured:
    """Return the mean over perturbations (a variant without one counts) of variants' means."""
    by_perturbation: dict[str, list[Measured]] = {}
    for variant, measured in by_variant.items():
        by_perturbation.setdefault(perturbation_of_variant.get(variant, variant), []).append(measured)
    return mean_over([mean_over(variants) for variants in by_perturbation.values()])


def mean_over(parts: Sequence[Measured]) -> Measured:
    """Return the mean of the defined values, also in each resample; NaN if none; sums `n`."""
    defined = [p for p in parts if not math.isnan(p.value)]
    n, unscored = sum(p.n for p in parts), sum(p.n_unscored for p in parts)
    if not defined:
        why = next((p.why for p in parts), "every variant is left out of the mean")
        return Measured(math.nan, np.empty(0), n, unscored, why)
    return Measured(
        float(np.mean([p.value for p in defined])),
        mean_of_arrays([p.resampled for p in defined]),
        n,
        unscored,
        method=defined[0].method,
        groups=min((p.groups for p in defined if p.groups is not None), default=None),
        why_no_interval=defined[0].why_no_interval,
        deleted=mean_of_arrays([p.deleted for p in defined]),
        bounds=mean_bounds(defined),
    )


def _stack_features(features: Mapping[str, Mapping[tuple[str, str], Floats]], n_rows: Mapping[str, int]) -> Floats:
    """Return the (rows, features) of all datasets, NaN where a dataset lacks a feature."""
    names = sorted({name for read in features.values() for name in read})
    return np.concatenate(
        [np.stack([read.get(name, np.full(n_rows[d], np.nan)) for name in names], axis=1) for d, read in features.items()]
    )


def _groups(samples: Samples) -> list[str]:
    return [group or f"{samples.name}\0{i}" for group, i in zip(samples.values("group"), samples.ids.to_pylist(), strict=True)]


def _attributions(model: str, ids: Sequence[tuple[str, str]], probabilities: Floats, truth: Sequence[str | None]) -> list[dict[str, Any]]:
    blamed = attribution.most_probable_modality(probabilities)
    return [
        {"model": model, "dataset": dataset, "sample_id": sample, "blamed": says, "truth": label_of_truth}
        | {m: or_null(share) for m, share in zip(MODALITIES, shares, strict=True)}
        for (dataset, sample), shares, says, label_of_truth in zip(ids, probabilities.tolist(), blamed, truth, strict=True)
    ]


def _drawn(measured: Measured) -> Floats:
    return np.concatenate([[measured.value], measured.resampled])


Place = tuple[str, str, str, str]
"""(model, dataset, slice, label)."""


def modality_comparisons(
    means: Mapping[Place, Mapping[str, Measured]], n_groups: Mapping[Where, int], metrics: Sequence[Metric], level: float, family: str
) -> list[dict[str, Any]]:
    """Return MODALITY_COMPARISONS rows: a model's mean in modality `b` minus that in `a`.

    `means` is, of every label, modality -> its mean over perturbations, all of one dataset in the same resamples; `n_groups` the groups of
    samples by (model, dataset), with fewer than 20 of which nothing is compared. Each interval is for its difference alone.
    """
    rankings = Rankings(metrics, level, family)
    for (model, dataset, part, label), of in means.items():
        metric = metric_of(label, metrics)
        candidates = [
            Candidate(modality, one.value, drawn, one.n, one.bounds)
            for modality in MODALITIES
            if (one := of.get(modality)) is not None and (drawn := ranking_resamples(metric, one)) is not None
        ]
        if len(candidates) > 1 and n_groups[model, dataset] >= MIN_GROUPS:
            place = (dataset, part, label, "", BY_MODALITY, model)
            better = bool(metric.plugin.declares["higher_is_better"])
            rankings.ranked.append(ranked(place, better, candidates, n_groups[model, dataset], level))
    left_out = ("variant", "higher_is_better")
    return [{key: value for key, value in row.items() if key not in left_out} for row in rankings.tables()[1].to_pylist()]


@dataclass(frozen=True)
class Sweep:
    """One parameter of one perturbation at two or more values."""

    perturbation: str
    """Plugin, and in brackets its other parameters that vary in the spec."""
    modality: str
    parameter: str
    points: tuple[tuple[float, str], ...]
    """(strength, label of the variant), strengths ascending."""


def find_sweeps(variants: Sequence[Mapping[str, Any]]) -> list[Sweep]:
    """Return a Sweep per numeric parameter with two or more values, the others being equal.

    >>> blur = lambda r: {"variant": f"blur@radius={r}", "plugin": "blur", "modality": "image", "args": {"radius": r, "relative": False}}
    >>> find_sweeps([blur(4), blur(2)])[0].points
    ((2.0, 'blur@radius=2'), (4.0, 'blur@radius=4'))
    """
    strengths: dict[tuple[str, str, str], dict[float, str]] = {}
    for one in variants:
        args = one["args"]
        for name, value in args.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                others = json.dumps({k: v for k, v in args.items() if k != name}, sort_keys=True)
                strengths.setdefault((one["plugin"], name, others), {})[float(value)] = one["variant"]
    several = {key: points for key, points in strengths.items() if len(points) > 1}
    modality = {one["plugin"]: str(one["modality"]) for one in variants}
    return [Sweep(_title(key, list(several)), modality[key[0]], key[1], tuple(sorted(several[key].items()))) for key in sorted(several)]


def _title(key: tuple[str, str, str], keys: Sequence[tuple[str, str, str]]) -> str:
    """Return a sweep's name: the plugin, and other parameters in which its sweeps differ."""
    plugin, name, others = key
    same = [json.loads(k[2]) for k in keys if k[:2] == (plugin, name)]
    own = json.loads(others)
    apart = [k for k in own if any(other.get(k) != own[k] for other in same)]
    return plugin + (f" ({', '.join(f'{k}={own[k]}' for k in apart)})" if apart else "")
