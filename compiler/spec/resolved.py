"""A resolved spec: plugins, parameters and data with nothing implied.

It has no positions, comments, order of keys or spelling of numbers, so that equivalent specs give the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from qualm.compiler.spec.language import Abstention, Calibrators, Dataset, Model, PairSet, Probe, Spec
from qualm.compiler.spec.plugin_ref import Ref, artifact_path
from qualm.registry import BLIND, VALIDATION, abstaining_name, method_name
from qualm.registry.entries.card import Card
from qualm.registry.plugins.columns import columns
from qualm.registry.plugins.registry import Plugin
from qualm.runners.runtime.server_presets import Preset

Entry = TypeVar("Entry", Abstention, Probe)


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
    def data(self) -> list[DataUse]:
        return [*self.datasets, *self.pairs]

    @property
    def evaluated(self) -> list[DataUse]:
        """Return the datasets and pair sets that models answer, by label."""
        return sorted((d for d in self.data if d.evaluate), key=lambda d: d.label)

    @property
    def scored_models(self) -> list[str]:
        """Return model names in the scores: models, `MODEL+METHOD`, blind baselines."""
        return [*(m.ref.label for m in self.models), *(name for a in self.abstentions for name in a.models), *self.blind_models]

    @property
    def blind_models(self) -> list[str]:
        """Return the names `MODEL+KIND` of all blind baselines."""
        return [abstaining_name(model, BLIND[way]) for way, models in self.blind.items() for model in models]

    @property
    def validated(self) -> frozenset[str]:
        """Return the labels of the models that also answer split `val`."""
        fitted: list[AbstentionUse | ProbeUse] = [*self.abstentions, *self.probes]
        named = {model for use in fitted if use.entry.fit == VALIDATION for model in use.of}
        if any(use.on_validation for use in self.calibrators):
            named |= {model.ref.label for model in self.models}
        return frozenset(named)

    def judges_of(self, dataset: DataUse) -> list[str]:
        """Return the labels of a dataset's judges; scores use the first."""
        labels = [judge.label for judge in self.judges]
        if dataset.entry.judges is None:
            return labels
        return [label for name in dataset.entry.judges for label in labels if name in (label, label.split("@")[0])]

    def perturbations_of(self, dataset: DataUse) -> list[Ref]:
        """Return the perturbations a dataset is asked under, in the spec's order; maybe []."""
        perturb = dataset.entry.perturb
        if isinstance(perturb, bool):
            return list(self.perturbations) if perturb else []
        return [p for p in self.perturbations if not {p.label, p.plugin.name}.isdisjoint(perturb)]


@dataclass(frozen=True)
class FittedUse(Generic[Entry]):
    """One point in the sweep of an abstention method or probe, with the models it is for."""

    label: str
    plugin: Plugin
    args: dict[str, Any]
    of: tuple[str, ...]
    entry: Entry

    def as_json(self) -> dict[str, Any]:
        return {**self.entry.settings(), "label": self.label, "plugin": self.plugin.name, "args": self.args, "of": list(self.of)}


class AbstentionUse(FittedUse[Abstention]):
    """An abstention method at one point of its sweep, with its models."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return "MODEL+METHOD" for each model that it is applied to."""
        return tuple(abstaining_name(model, method_name(self.label, self.entry.fit)) for model in self.of)


class ProbeUse(FittedUse[Probe]):
    """A probe at one point of its sweep, with the models it is trained for."""

    @property
    def reads(self) -> list[str]:
        """Return the columns that the probe reads."""
        return [column for column in columns(self.plugin, self.args).values() if column is not None]

    @property
    def target(self) -> str | None:
        """Return the estimator whose high values it predicts; None if it predicts wrong answers."""
        target = self.plugin.declares["TARGET"]
        return str(self.args[target["high"]]) if isinstance(target, Mapping) else None

    @property
    def beside(self) -> str:
        """Return the perturbed variant that training compares answers with; "" if none."""
        named = self.plugin.declares.get("BESIDE")
        return str(self.args[named]) if named else ""


@dataclass(frozen=True)
class ConformalUse:
    label: str
    scores: tuple[Ref, ...]
    args: dict[str, Any]


@dataclass(frozen=True)
class CalibratorUse:
    """One entry of `calibrators:`: methods, and what they recalibrate."""

    label: str
    methods: tuple[Ref, ...]
    of: tuple[str | tuple[str, ...], ...]
    """Labels of estimators; empty for the model's own confidence; several that are combined."""
    entry: Calibrators

    @property
    def on_validation(self) -> bool:
        """Return whether the calibrators are fitted on answers to split `val`."""
        return self.entry.calibration.fit == VALIDATION

    def methods_of(self, of: str | tuple[str, ...]) -> list[Ref]:
        """Return the methods that can recalibrate `of`: "" (confidence), one estimator or several."""
        if isinstance(of, tuple):
            return [m for m in self.methods if m.plugin.declares.get("SEVERAL", False)]
        return [m for m in self.methods if not of or not m.plugin.declares.get("PROBABILITIES", False)]

    def as_json(self) -> dict[str, Any]:
        calibration = self.entry.calibration.model_dump(exclude=set() if self.on_validation else {"fit"})
        resolved = {
            "label": self.label,
            "methods": [m.as_json() for m in self.methods],
            "of": [of if isinstance(of, str) else list(of) for of in self.of],
        }
        return {**self.entry.settings(), **resolved, "calibration": {"fit": VALIDATION} if self.on_validation else calibration}


@dataclass(frozen=True)
class DataUse:
    """A dataset or pair set of the spec: label, entry, prompt."""

    label: str
    entry: Dataset | PairSet
    evaluate: bool
    prompt: Mapping[str, Any]
    """Keys of the prompt that it sets."""

    @property
    def splits(self) -> tuple[str, ...] | None:
        """Return the sorted splits to score; None if the spec names none."""
        return None if self.entry.splits is None else tuple(sorted(set(self.entry.splits)))

    @property
    def reviews(self) -> str | None:
        """Return the path of the entry with people's decisions; None if unset."""
        return artifact_path(self.entry.curated) if self.entry.curated else None


@dataclass(frozen=True)
class DatasetUse(DataUse):
    """A dataset at one point of its sweep: card, adapter, arguments, selection."""

    entry: Dataset
    card: Card
    adapter: Plugin | None
    """None if nothing reads the card's data yet."""
    args: dict[str, Any]
    limit: int | Mapping[str, Any] | None
    """Number of samples; or `unit` and numbers `of` each split, "" = all splits together."""
    select: Mapping[str, Any]
    """Parameters of the data stage: `where`, `uncertain`, `disjoint` and `ask_answerable`."""
    subsets: Mapping[str, str]
    """Subsets of the card: name -> expression."""
    prepare: Ref | None = None
    """Transformation of its samples."""
    answerable_by: Ref | None = None
    """Judge that decides which questions are answerable."""

    @property
    def source(self) -> str | None:
        """Return the name of the dataset's folder in registry/data; None for generated data."""
        return self.entry.source or (self.card.name if self.card.layout else None)


@dataclass(frozen=True)
class RecipeUse:
    """A recipe of a pair set, at one point of its sweep."""

    ref: Ref
    datasets: tuple[str, ...]
    category: str
    about: dict[str, Any]
    """Description of the category in the taxonomy."""
    limit: Mapping[str, int] = field(default_factory=dict)
    """Largest number of pairs of each split, "" = of all splits together; empty = no limit."""


@dataclass(frozen=True)
class PairSetUse(DataUse):
    entry: PairSet
    recipes: tuple[RecipeUse, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the names of the datasets that its recipes read, each once."""
        return tuple(dict.fromkeys(name for recipe in self.recipes for name in recipe.datasets))


@dataclass(frozen=True)
class ModelUse:
    ref: Ref
    source: str | None
    gives: frozenset[str]
    entry: Model = field(default_factory=Model)
    """Keys of the spec beside the plugin; a fine-tuned model has the defaults."""
    beneath: tuple[str, ...] = ()
    """Paths of the base models under an adapter."""
    preset: Preset | None = None
    """Preset of the server that answers."""
    prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt of the spec, at one point of its sweep."""
    own_prompt: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the prompt that the model overrides, at one point of its sweep."""
    origin: str = ""
    """Label without the prompt's name, in a sweep over prompts."""

    @property
    def about(self) -> dict[str, Any]:
        return self.entry.about.model_dump(exclude_none=True) if self.entry.about else {}

    @property
    def unprompted(self) -> str:
        return self.origin or self.ref.label

    def prompt_for(self, dataset: DataUse) -> dict[str, Any]:
        """Return the prompt's keys for a dataset; the model's override the dataset's."""
        return {**self.prompt, **dataset.prompt, **self.own_prompt}

    def asked_for(self, estimator: Ref) -> bool:
        return {estimator.label, estimator.plugin.name}.isdisjoint(self.entry.leave_out or ())


@dataclass(frozen=True)
class FinetuneUse:
    """A fine-tune at one point of its sweep, with its datasets and base models."""

    ref: Ref
    datasets: tuple[str, ...]
    models: tuple[str, ...]
