"""What a spec with perturbations is for: which of them makes which estimator react, whether that warns of wrong answers, and which
modality uncertainty comes from. Gathered while the `score` stage goes from cell to cell, so that nothing is resampled twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from qualm.registry import MODALITIES
from qualm.registry.sample import ATTRIBUTIONS, BLAMES, CLEAN, RANK_STABILITY, SCORES
from qualm.runners.data.aligned import Floats, Samples
from qualm.runners.runtime.records import write_csv
from qualm.runners.scoring.cells import Cell
from qualm.runners.scoring.evaluate import Measured, Metric, about, intervals
from qualm.runners.scoring.limits import Limits
from qualm.runners.studies.attribution import accuracy, attributed, by_modality, labels
from qualm.runners.studies.rank_stability import stability
from qualm.runners.studies.sweeps import sweeps

REFLECTION, TIES = "uncertainty_reflection_rate", "uncertainty_tie_rate"
CONSISTENCY, HALLUCINATION = "hallucination_change_correlation", "hallucination_rate"
PERTURBED = "auroc_perturbed"
ACCURACIES = ("accuracy", "vqa_accuracy", "lave_idk_accuracy")
SWEPT = (REFLECTION, *ACCURACIES, "mean_uncertainty")
RANKED = ("auroc", REFLECTION, CONSISTENCY)
"""What estimators are ranked by: `auroc` on clean inputs, the others by their mean over all perturbations."""
MEANS = (PERTURBED, REFLECTION, CONSISTENCY, HALLUCINATION, *ACCURACIES, "coverage", "set_size")
"""Whose means over the perturbations of a modality are given."""
NEEDED = frozenset({*SWEPT, *RANKED, *MEANS, TIES})

_WHERE = ["model", "dataset"]
_VALUE = ["value", "low", "high", "n", "n_unscored"]
_GRID = [*_WHERE, "variant", "modality", "metric", "estimator", *_VALUE]
FIELDS = {
    "sweeps": [*_WHERE, "perturbation", "modality", "parameter", "strength", "variant", "metric", "estimator", *_VALUE, "clean"],
    "urr": [*_GRID, "tie_rate", "p_adjusted", "why"],
    "hcc": [*_GRID, "hallucination_rate", "p_adjusted", "why"],
}
"""Columns of the CSV files behind `dvc plots` and the report; an empty field is undefined."""

Where = tuple[str, str]


class Study:
    """Collects what was measured on all rows of every cell, then makes the tables."""

    def __init__(self, params: Mapping[str, Any], metrics: Sequence[Metric], seed: int) -> None:
        """`params` of the stage: `variants` as in the `infer` stage, and `labelled`: dataset -> modality."""
        self.variants: list[dict[str, Any]] = params["variants"]
        self.modality = {v["variant"]: str(v["modality"]) for v in self.variants}
        self.labelled: dict[str, str] = params.get("labelled", {})
        self.level: float = params["interval"]["level"]
        self.times: int = params["interval"]["bootstrap"]
        self.metrics, self.seed = metrics, seed
        self.measured: dict[tuple[Where, str, str], Measured] = {}
        self.limits: dict[tuple[Where, str, str], Limits] = {}
        self.groups: dict[Where, int] = {}
        self.samples: dict[str, Samples] = {}
        self.p: dict[tuple[str, str, str, str], float | None] = {}
        """(model, dataset, variant, metric) -> corrected p-value of a test over all rows, to be filled in."""
        self.changes: dict[tuple[str, str], dict[str, dict[str, Floats]]] = {}
        """(model, estimator) -> dataset -> variant -> change of uncertainty."""

    def add(self, cell: Cell, groups: int, metrics: Sequence[tuple[str, Measured]], limits: Sequence[Limits]) -> None:
        """What was measured on all rows of a cell, `groups` of them."""
        where = (cell.model, cell.samples.name)
        self.groups[where] = groups
        self.samples[cell.samples.name] = cell.samples
        for (label, measured), limit in zip(metrics, limits, strict=True):
            if self._split(label)[0] in NEEDED:
                self.measured[where, cell.variant, label] = measured
                self.limits[where, cell.variant, label] = limit
        for name in cell.estimators_of_both:
            with np.errstate(invalid="ignore"):
                change = cell.uncertainties[name] - cell.clean_uncertainties[name]
            of = self.changes.setdefault((cell.model, name), {}).setdefault(cell.samples.name, {})
            of[cell.variant] = np.where(np.isfinite(change), change, np.nan)

    def _split(self, label: str) -> tuple[str, str, str]:
        """A label as plugin, the metric's own label, and what stands in brackets behind that."""
        for metric in self.metrics:
            if label == metric.label or label.startswith(f"{metric.label}["):
                return metric.function.__name__, metric.label, label[len(metric.label) + 1 : -1]
        raise KeyError(label)

    def _of(self, *plugins: str) -> Iterator[tuple[Where, str, str, tuple[str, str, str]]]:
        for where, variant, label in self.measured:
            parts = self._split(label)
            if parts[0] in plugins:
                yield where, variant, label, parts

    def _numbers(self, key: tuple[Where, str, str]) -> dict[str, Any]:
        measured, ends = self.measured[key], self.limits[key]
        values = {"value": measured.value, "low": ends.low, "high": ends.high}
        return {k: _null(v) for k, v in values.items()} | {"n": measured.n, "n_unscored": measured.n_unscored}

    def sweeps(self) -> list[dict[str, Any]]:
        """A row per strength: reflection rate, accuracy and mean uncertainty, each with its interval and its clean value."""
        rows = []
        for sweep in sweeps(self.variants):
            at = {variant: strength for strength, variant in sweep.points}
            same = {"perturbation": sweep.perturbation, "modality": sweep.modality, "parameter": sweep.parameter}
            for where, variant, label, (_, metric, rest) in self._of(*SWEPT):
                if variant in at:
                    clean = self.measured.get((where, CLEAN, label))
                    row = dict(zip(_WHERE, where, strict=True)) | same | {"strength": at[variant], "variant": variant}
                    row |= {"metric": metric, "estimator": rest, "clean": _null(clean.value) if clean else None}
                    rows.append(row | self._numbers((where, variant, label)))
        return rows

    def urr(self) -> list[dict[str, Any]]:
        """A row per model, dataset, perturbation and estimator, the share of ties beside it."""
        return self._grid(REFLECTION, TIES, "tie_rate")

    def hcc(self) -> list[dict[str, Any]]:
        """Likewise, the rate of hallucination beside it."""
        return self._grid(CONSISTENCY, HALLUCINATION, "hallucination_rate")

    def _grid(self, plugin: str, companion: str, beside: str) -> list[dict[str, Any]]:
        rows = []
        for where, variant, label, (_, metric, rest) in self._of(plugin):
            measured = self.measured[where, variant, label]
            other = self._companion(where, variant, metric.replace(plugin, companion, 1), rest)
            row: dict[str, Any] = dict(zip(_WHERE, where, strict=True)) | {"variant": variant, "modality": self.modality[variant]}
            row |= {"metric": metric, "estimator": rest} | self._numbers((where, variant, label))
            row |= {beside: _null(other.value) if other else None, "p_adjusted": self.p.get((*where, variant, label))}
            rows.append(row | {"why": measured.why or _why(measured)})
        return rows

    def _companion(self, where: Where, variant: str, metric: str, rest: str) -> Measured | None:
        """What stands beside a metric: of the same estimator, or of the answers, with the arguments that both have."""
        labels = (f"{metric}[{rest}]", metric, f"{metric.partition('@')[0]}[{rest}]", metric.partition("@")[0])
        return next((m for label in labels if (m := self.measured.get((where, variant, label)))), None)

    def modality_scores(self) -> list[dict[str, Any]]:
        """Rows of SCORES whose variant is a modality: the unweighted mean over its perturbations, and the clean value beside it."""
        parts: dict[tuple[Where, str, str], list[Measured]] = {}
        for where, variant, label, _ in self._of(*MEANS):
            parts.setdefault((where, self.modality.get(variant, CLEAN), label), []).append(self.measured[where, variant, label])
        rows = []
        for (where, modality, label), of in parts.items():
            one = mean_over(of)
            ends = intervals([one], self.level, self.groups[where])[0]
            row = dict(zip(_WHERE, where, strict=True)) | {"variant": modality, "slice": "all", "metric": label}
            numbers = {"value": _null(one.value), "low": _null(ends.low), "high": _null(ends.high)}
            rows.append(row | numbers | {"n": one.n, "n_unscored": one.n_unscored, "why": None} | about(one, ends, self.level))
        return rows

    def rank_stability(self) -> list[dict[str, Any]]:
        """Rows of RANK_STABILITY."""
        parts: dict[tuple[str, str, str], dict[str, list[Measured]]] = {}
        for where, variant, label, (plugin, metric, rest) in self._of(*RANKED):
            if rest and (variant == CLEAN) == (plugin == "auroc"):
                parts.setdefault((metric, *where), {}).setdefault(rest, []).append(self.measured[where, variant, label])
        tables = {place: {e: _drawn(mean_over(of)) for e, of in by_estimator.items()} for place, by_estimator in parts.items()}
        return list(stability(tables, self.level))

    def attribution(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of ATTRIBUTIONS and of BLAMES; none where perturbations are of one modality only."""
        samples, summary = [], []
        if len({m for m in self.modality.values() if m in MODALITIES}) < 2:
            return [], []
        for (model, estimator), of in self.changes.items():
            rows = [row for pool in self._pools(of) for row in self._attributed(model, estimator, {d: of[d] for d in pool})]
            samples += rows
            truth, attributions = [row["truth"] for row in rows], [row["blamed"] for row in rows]
            groups = np.array([f"{d}\0{g}" for pool in self._pools(of) for d in pool for g in self.samples[d].groups.tolist()])
            agreement = accuracy(truth, attributions, groups, self.times, self.level, self.seed, model, estimator)
            summary.append({"model": model, "estimator": estimator} | agreement)
        return samples, summary

    def _pools(self, names: Iterable[str]) -> list[list[str]]:
        """Data sets over which changes are standardised together: labelled subsets are the parts of one whole, others stand alone."""
        subsets = [d for d in names if d in self.labelled]
        return [[d] for d in names if d not in self.labelled] + ([subsets] if subsets else [])

    def _attributed(self, model: str, estimator: str, of: Mapping[str, Mapping[str, Floats]]) -> list[dict[str, Any]]:
        moved = by_modality(_joined(of, self.modality, {d: self.samples[d].n for d in of}), self.modality)
        attributions = attributed(moved)
        truth = [t for d in of for t in labels(self.samples[d], self.labelled.get(d))]
        rows = [{"model": model, "dataset": d, "sample_id": i, "estimator": estimator} for d in of for i in self.samples[d].ids.to_pylist()]
        for k, row in enumerate(rows):
            row |= {m: _null(float(moved[m][k])) for m in MODALITIES} | {"blamed": attributions[k], "truth": truth[k]}
        return rows

    def tables(self) -> dict[str, tuple[list[dict[str, Any]], pa.Schema]]:
        """Every table by the key of its output."""
        samples, summary = self.attribution()
        return {
            "modality_scores": (self.modality_scores(), SCORES),
            "rank_stability": (self.rank_stability(), RANK_STABILITY),
            "attributions": (samples, ATTRIBUTIONS),
            "blames": (summary, BLAMES),
        }

    def write(self, name: str, path: Path) -> None:
        """One of the CSV files."""
        rows = {"sweeps": self.sweeps, "urr": self.urr, "hcc": self.hcc}[name]()
        write_csv(path, FIELDS[name], rows)


def mean_over(parts: Sequence[Measured]) -> Measured:
    """Unweighted mean over variants, of those that have a value, resample by resample; n is their sum."""
    defined = [p for p in parts if not math.isnan(p.value)]
    n, unscored = sum(p.n for p in parts), sum(p.n_unscored for p in parts)
    if not defined:
        return Measured(math.nan, np.empty(0), n, unscored)
    times = {len(p.resampled) for p in defined}
    resampled = np.mean([p.resampled for p in defined], axis=0) if len(times) == 1 else np.empty(0)
    mean = float(np.mean([p.value for p in defined]))
    groups = [p.groups for p in defined if p.groups is not None]
    first, fewest = defined[0], min(groups) if groups else None
    return Measured(mean, resampled, n, unscored, method=first.method, groups=fewest, why_no_interval=first.why_no_interval)


def _joined(of: Mapping[str, Mapping[str, Floats]], variants: Mapping[str, str], n: Mapping[str, int]) -> dict[str, Floats]:
    """Changes of all datasets behind each other, NaN where a variant was not run."""
    return {v: np.concatenate([of[d].get(v, np.full(n[d], np.nan)) for d in of]) for v in variants}


def _drawn(measured: Measured) -> Floats:
    return np.concatenate([[measured.value], measured.resampled])


def _why(measured: Measured) -> str:
    if not math.isnan(measured.value):
        return ""
    return "no value for these rows" if measured.n else (f"all {measured.n_unscored:,} unscored" if measured.n_unscored else "no rows")


def _null(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
