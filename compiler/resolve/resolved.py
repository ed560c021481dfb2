"""A resolved spec: plugins, parameters and data with nothing implied.

It has no positions, comments, order of keys or spelling of numbers, so that equivalent specs give the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualm.compiler.spec.language import Spec
from qualm.compiler.spec.plugin_ref import Ref
from qualm.registry import BLIND, VALIDATION, abstaining, method_name
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.rule import Plugin
from qualm.runners.servers.presets import Preset


def named_perturbations(perturb: bool | list[str]) -> tuple[str, ...] | None:
    """Convert `perturb:` of a dataset to names; None = all."""
    if isinstance(perturb, bool):
        return None if perturb else ()
    return tuple(sorted(set(perturb)))


@dataclass(frozen=True)
class Resolved:
    spec: Spec
    seed: int
    files: tuple[Path, ...]
    """The spec's file, those that it extends, and those of the specs whose models it reads."""
    datasets: tuple[DatasetUse, ...]
    pairs: tuple[PairSetUse, ...]
    models: tuple[ModelUse, ...]
    finetunes: tuple[FinetuneUse, ...]
    perturbations: tuple[Ref, ...]
    judges: tuple[Ref, ...]
    estimators: tuple[Ref, ...]
    conformal: tuple[ConformalUse, ...]
    abstentions: tuple[AbstentionUse, ...]
    metrics: tuple[Ref, ...]
    probes: tuple[ProbeUse, ...] = ()
    calibrators: tuple[CalibratorUse, ...] = ()
    blind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of baseline -> models that are also scored so."""

    @property
    def data(self) -> list[DatasetUse | PairSetUse]:
        return [*self.datasets, *self.pairs]

    @property
    def evaluated(self) -> list[DatasetUse | PairSetUse]:
        """Return the datasets that models answer, sorted by label."""
        return sorted((d for d in self.data if d.evaluate), key=lambda d: d.label)

    @property
    def scored_models(self) -> list[str]:
        """Return all model names in the scores: models, abstaining models and baselines."""
        return [*(m.ref.label for m in self.models), *(name for a in self.abstentions for name in a.models), *self.blind_models]

    @property
    def blind_models(self) -> list[str]:
        """Return the names of text-only and shuffled-image baselines."""
        return [abstaining(model, BLIND[way]) for way, models in self.blind.items() for model in models]

    @property
    def validated(self) -> frozenset[str]:
        """Return the models that also answer split `val`, since something is fitted on it."""
        fitted: list[FittedUse] = [*self.abstentions, *self.probes]
        named = {model for use in fitted if use.options["fit"] == VALIDATION for model in use.of}
        if any(use.on_validation for use in self.calibrators):
            named |= {model.ref.label for model in self.models}
        return frozenset(named)

    def judges_of(self, dataset: DatasetUse | PairSetUse) -> list[str]:
        """Return the labels of a dataset's judges, the one that scores use first."""
        labels = [judge.label for judge in self.judges]
        if dataset.judges is None:
            return labels
        return [label for name in dataset.judges for label in labels if name in (label, label.split("@")[0])]

    def perturbations_of(self, dataset: DatasetUse | PairSetUse) -> list[Ref]:
        """Return the perturbations of a dataset; a name means all points of its sweep."""
        if dataset.perturb is None:
            return list(self.perturbations)
        return [p for p in self.perturbations if not {p.label, p.plugin.name}.isdisjoint(dataset.perturb)]


@dataclass(frozen=True)
class FittedUse:
    """A method, at one point of its sweep, that is fitted on answers of models."""

    label: str
    plugin: Plugin
    args: dict[str, Any]
    of: tuple[str, ...]
    options: dict[str, Any]
    """Keys beside the plugin in the spec."""

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "plugin": self.plugin.name, "args": self.args, "of": list(self.of), **self.options}


class AbstentionUse(FittedUse):
    """A method that makes models abstain."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the abstaining models."""
        return tuple(abstaining(model, method_name(self.label, self.options["fit"])) for model in self.of)


class ProbeUse(FittedUse):
    """A probe of hidden states or attention."""

    @property
    def reads(self) -> list[str]:
        """Return the columns that it reads."""
        return [column for column in columns(self.plugin, self.args).values() if column is not None]

    @property
    def target(self) -> str | None:
        """Return the estimator whose high values it predicts; None if it predicts wrong answers."""
        target = self.plugin.declares["TARGET"]
        return str(self.args[target["high"]]) if isinstance(target, Mapping) else None

    @property
    def beside(self) -> str:
        """Return the perturbation or variant that it compares with during training; empty if none."""
        named = self.plugin.declares.get("BESIDE")
        return str(self.args[named]) if named else ""


@dataclass(frozen=True)
class ConformalUse:
    label: str
    scores: tuple[Ref, ...]
    args: dict[str, Any]


@dataclass(frozen=True)
class CalibratorUse:
    """One setting of `calibrators:`."""

    label: str
    methods: tuple[Ref, ...]
    of: tuple[str, ...]
    """Labels of estimators; empty for the model's own confidence."""
    calibration: dict[str, Any]
    refits: int

    @property
    def on_validation(self) -> bool:
        """Return True if they are fitted on answers to split `val`."""
        return self.calibration.get("fit") == VALIDATION

    def methods_of(self, of: str) -> list[Ref]:
        """Return the methods that can recalibrate the model's confidence or an estimator."""
        return [m for m in self.methods if not of or not m.plugin.declares.get("PROBABILITIES", False)]

    def as_json(self) -> dict[str, Any]:
        methods = [m.as_json() for m in self.methods]
        return {"label": self.label, "methods": methods, "of": list(self.of), "calibration": self.calibration, "refits": self.refits}


@dataclass(frozen=True)
class DatasetUse:
    """A dataset of the spec, at one point of its sweep."""

    label: str
    card: str
    adapter: Plugin | None
    """None if nothing reads the card's data yet."""
    args: dict[str, Any]
    limit: int | Mapping[str, Any] | None
    """Number of samples; or `unit` and numbers `of` each split, "" = all splits together."""
    source: str | None
    evaluate: bool
    splits: tuple[str, ...] | None
    missing: str = ""
    """Reader that has yet to be written, if `adapter` is None."""
    select: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the data stage: `where`, `uncertain`, `disjoint`, `ask_answerable` and `skip_bad`."""
    reviews: str | None = None
    unreviewed: str = "drop"
    lone: str = "drop"
    subsets: Mapping[str, str] = field(default_factory=dict)
    prepare: Ref | None = None
    """Transformation of its samples."""
    answerable_by: Ref | None = None
    """Judge that decides which questions are answerable."""
    judges: tuple[str, ...] | None = None
    """Names of the judges of its answers; None = all."""
    perturb: tuple[str, ...] | None = None
    """Names of the perturbations that it is asked under; None = all."""
    balance: Mapping[str, Any] | None = None
    """Numbers of samples per class."""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt that the dataset sets."""


@dataclass(frozen=True)
class RecipeUse:
    """A recipe of pairs, at one point of its sweep."""

    ref: Ref
    datasets: tuple[str, ...]
    category: str
    about: dict[str, Any]
    """Description of the category in the taxonomy."""
    limit: Mapping[str, int] = field(default_factory=dict)
    """Largest number of pairs of each split, "" = of all splits together; empty = no limit."""


@dataclass(frozen=True)
class PairSetUse:
    label: str
    recipes: tuple[RecipeUse, ...]
    reviews: str | None
    unreviewed: str
    lone: str
    near_duplicates: dict[str, Any]
    evaluate: bool
    splits: tuple[str, ...] | None
    judges: tuple[str, ...] | None = None
    """Names of the judges of its answers; None = all."""
    perturb: tuple[str, ...] | None = None
    """Names of the perturbations that it is asked under; None = all."""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt that the pairs set."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the datasets that its recipes read, without duplicates."""
        return tuple(dict.fromkeys(name for recipe in self.recipes for name in recipe.datasets))


@dataclass(frozen=True)
class ModelUse:
    ref: Ref
    source: str | None
    about: dict[str, Any]
    gives: frozenset[str]
    beneath: tuple[str, ...] = ()
    """Paths of the base models under an adapter."""
    left_out: frozenset[str] = frozenset()
    """Names or labels of estimators that it is not asked for."""

    confident: bool = True
    """False if it cannot verify its answers, with `confidence: verify`."""
    per_category: int | None = None
    """Number of questions per category; None = all."""
    preset: Preset | None = None
    """Preset of the server that answers."""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt of the spec, at one point of its sweep."""
    own_prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt that the model overrides, at one point of its sweep."""
    origin: str = ""
    """Label without the prompt's name, in a sweep over prompts."""

    @property
    def unprompted(self) -> str:
        return self.origin or self.ref.label

    def prompt_for(self, dataset: DatasetUse | PairSetUse) -> dict[str, Any]:
        """Return the keys of the prompt that differ from the default for a dataset."""
        return {**self.prompt, **dataset.prompt, **self.own_prompt}

    def asked_for(self, estimator: Ref) -> bool:
        return self.left_out.isdisjoint((estimator.label, estimator.plugin.name))


@dataclass(frozen=True)
class FinetuneUse:
    """A model that a fine-tune makes."""

    ref: Ref
    datasets: tuple[str, ...]
    models: tuple[str, ...]
