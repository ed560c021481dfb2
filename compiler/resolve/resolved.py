"""What a resolved spec is: everything it names, spelled out.

It holds no positions, comments, orders of keys or ways to write a number, so that two specs that mean the same give the
same plan.
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
    """`perturb:` of a data set as names; None = all."""
    if isinstance(perturb, bool):
        return None if perturb else ()
    return tuple(sorted(set(perturb)))


@dataclass(frozen=True)
class Resolved:
    """A spec, spelled out."""

    spec: Spec
    seed: int
    files: tuple[Path, ...]
    """Its own file, those that it extends, and those of the specs whose models it reads."""
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
    """Of kinds that are not built in."""
    blind: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Way not to look -> the models that are scored so too."""

    @property
    def data(self) -> list[DatasetUse | PairSetUse]:
        """Data sets and pair sets."""
        return [*self.datasets, *self.pairs]

    @property
    def evaluated(self) -> list[DatasetUse | PairSetUse]:
        """What models answer, sorted by label."""
        return sorted((d for d in self.data if d.evaluate), key=lambda d: d.label)

    @property
    def scored_models(self) -> list[str]:
        """Every name that scores have: models, models that abstain, and models that do not look."""
        return [*(m.ref.label for m in self.models), *(name for a in self.abstentions for name in a.models), *self.blind_models]

    @property
    def blind_models(self) -> list[str]:
        """Models that do not look."""
        return [abstaining(model, BLIND[way]) for way, models in self.blind.items() for model in models]

    @property
    def validated(self) -> frozenset[str]:
        """Models that are also asked the questions of split `val`, since something is fitted on their answers."""
        fitted: list[FittedUse] = [*self.abstentions, *self.probes]
        named = {model for use in fitted if use.options["fit"] == VALIDATION for model in use.of}
        if any(use.on_validation for use in self.calibrators):
            named |= {model.ref.label for model in self.models}
        return frozenset(named)

    def judges_of(self, dataset: DatasetUse | PairSetUse) -> list[str]:
        """Labels of the judges of a data set's answers, the one that scores use first. A name without its sweep means all points of it."""
        labels = [judge.label for judge in self.judges]
        if dataset.judges is None:
            return labels
        return [label for name in dataset.judges for label in labels if name in (label, label.split("@")[0])]

    def perturbations_of(self, dataset: DatasetUse | PairSetUse) -> list[Ref]:
        """What a data set is perturbed by. A name without its sweep means all points of it."""
        if dataset.perturb is None:
            return list(self.perturbations)
        return [p for p in self.perturbations if not {p.label, p.plugin.name}.isdisjoint(dataset.perturb)]

    def cells(self) -> int:
        """Models x data sets, each under its variants, x estimators (at least one of each)."""
        variants = sum(1 + len(self.perturbations_of(d)) for d in self.evaluated)
        return len(self.models) * variants * max(1, len(self.estimators))


@dataclass(frozen=True)
class FittedUse:
    """One method (one point of its sweep) that is fitted on answers of some models."""

    label: str
    plugin: Plugin
    args: dict[str, Any]
    of: tuple[str, ...]
    """Labels of these models."""
    options: dict[str, Any]
    """What stands beside the plugin in the spec."""

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "plugin": self.plugin.name, "args": self.args, "of": list(self.of), **self.options}


class AbstentionUse(FittedUse):
    """What makes models decline."""

    @property
    def models(self) -> tuple[str, ...]:
        """What the models that it makes decline are called."""
        return tuple(abstaining(model, method_name(self.label, self.options["fit"])) for model in self.of)


class ProbeUse(FittedUse):
    """What reads the inside of models."""

    @property
    def reads(self) -> list[str]:
        """Columns of a model's answers."""
        return [column for column in columns(self.plugin, self.args).values() if column is not None]

    @property
    def target(self) -> str | None:
        """The estimator whose high values it learns; None where it learns which answers are wrong."""
        target = self.plugin.declares["TARGET"]
        return str(self.args[target["high"]]) if isinstance(target, Mapping) else None

    @property
    def beside(self) -> str:
        """The perturbation, or variant, that it compares with while it learns; empty where it does not."""
        named = self.plugin.declares.get("BESIDE")
        return str(self.args[named]) if named else ""


@dataclass(frozen=True)
class ConformalUse:
    """One conformal setting (one point of its sweep)."""

    label: str
    scores: tuple[Ref, ...]
    args: dict[str, Any]


@dataclass(frozen=True)
class CalibratorUse:
    """One setting of `calibrators:`."""

    label: str
    methods: tuple[Ref, ...]
    of: tuple[str, ...]
    """Labels of estimators; empty text for the model's own confidence."""
    calibration: dict[str, Any]
    refits: int

    @property
    def on_validation(self) -> bool:
        """Whether they are fitted on answers to split `val`."""
        return self.calibration.get("fit") == VALIDATION

    def methods_of(self, of: str) -> list[Ref]:
        """Those that can recalibrate it: an estimator's value is no probability."""
        return [m for m in self.methods if not of or not m.plugin.declares.get("PROBABILITIES", False)]

    def as_json(self) -> dict[str, Any]:
        methods = [m.as_json() for m in self.methods]
        return {"label": self.label, "methods": methods, "of": list(self.of), "calibration": self.calibration, "refits": self.refits}


@dataclass(frozen=True)
class DatasetUse:
    """One data set of the spec (one point of its sweep)."""

    label: str
    card: str
    adapter: Plugin | None
    """None where nothing reads the card's data yet."""
    args: dict[str, Any]
    limit: int | None
    source: str | None
    evaluate: bool
    splits: tuple[str, ...] | None
    missing: str = ""
    """What will read it, where nothing does yet."""
    select: Mapping[str, Any] = field(default_factory=dict)
    """`where`, `uncertain`, `disjoint`, `ask` and `skip_bad` as the data stage is told, where the spec has them."""
    reviews: str | None = None
    """Path of people's decisions."""
    unreviewed: str = "drop"
    subsets: Mapping[str, str] = field(default_factory=dict)
    """The card's subsets as expressions, by name."""
    prepare: Ref | None = None
    """What is made of its samples."""
    judges: tuple[str, ...] | None = None
    """Names of those of the spec's judges that judge its answers; None = all."""
    perturb: tuple[str, ...] | None = None
    """Names of those of the spec's perturbations that it is asked under; None = all."""
    balance: Mapping[str, Any] | None = None
    """How many of which classes are taken."""


@dataclass(frozen=True)
class RecipeUse:
    """One recipe (one point of its sweep)."""

    ref: Ref
    datasets: tuple[str, ...]
    """Data sets and other pair sets it reads, by the spec's names."""
    category: str
    about: dict[str, Any]
    """The category as the taxonomy describes it."""


@dataclass(frozen=True)
class PairSetUse:
    """A data set made of pairs."""

    label: str
    recipes: tuple[RecipeUse, ...]
    reviews: str | None
    """Path of people's decisions."""
    unreviewed: str
    near_duplicates: dict[str, Any]
    evaluate: bool
    splits: tuple[str, ...] | None
    judges: tuple[str, ...] | None = None
    """Names of those of the spec's judges that judge its answers; None = all."""
    perturb: tuple[str, ...] | None = None
    """Names of those of the spec's perturbations that it is asked under; None = all."""

    @property
    def sources(self) -> tuple[str, ...]:
        """What its recipes read, each name once."""
        return tuple(dict.fromkeys(name for recipe in self.recipes for name in recipe.datasets))


@dataclass(frozen=True)
class ModelUse:
    """One model that answers, and what it is read from."""

    ref: Ref
    source: str | None
    about: dict[str, Any]
    gives: frozenset[str]
    beneath: tuple[str, ...] = ()
    """What else lies under an adapter: paths of the models it was tuned from."""
    left_out: frozenset[str] = frozenset()
    """Estimators that it is not asked for: names, each of all its variants, and labels of single ones."""

    confident: bool = True
    """Whether it can say how sure it is, where `inference.confidence` has models verify their answers."""
    per_category: int | None = None
    """So many questions of each category it is asked; None = all."""
    preset: Preset | None = None
    """The server that answers, where the spec names one by `preset`."""

    def asked_for(self, estimator: Ref) -> bool:
        return self.left_out.isdisjoint((estimator.label, estimator.plugin.name))


@dataclass(frozen=True)
class FinetuneUse:
    """One model that is made here."""

    ref: Ref
    datasets: tuple[str, ...]
    models: tuple[str, ...]
