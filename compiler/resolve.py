"""A checked spec -> everything it names, spelled out: every sweep expanded, every default filled in, every reference tied.

What comes out (`Resolved`) holds no positions, comments, orders of keys or ways to write a number, so that two specs
that mean the same give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt

from compiler import abstentions, check, estimators, measured, subsets
from compiler.abstentions import AbstentionUse
from compiler.errors import Mark, Problem, SpecError, nearest, shown
from compiler.load import Document, Path_, load
from compiler.names import names_in, names_of
from compiler.pairsets import PairResolver, PairSetUse
from compiler.refs import OWN, PREPARE, Ref, artifact_path, located, slug
from compiler.spec import About, Dataset, RunWide, Spec
from compiler.tuned import Elsewhere, FinetuneUse, ModelUse, swept_bases, tuned_models, way_out
from registry import cards, plugins
from registry.plugins import Artifact, DatasetName, ModelName, Parameter, Plugin, PluginError

BESIDE = ("about", "leave_out")
"""What may stand beside the plugin of a model."""


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


@dataclass(frozen=True)
class ConformalUse:
    """One conformal setting (one point of its sweep)."""

    label: str
    scores: tuple[Ref, ...]
    args: dict[str, Any]


@dataclass(frozen=True)
class Resolved:
    """A spec, spelled out."""

    spec: Spec
    seed: int
    files: tuple[Path, ...]
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
        """Every name that scores have: models, and models that abstain."""
        return [*(m.ref.label for m in self.models), *(name for a in self.abstentions for name in a.models)]

    def judges_of(self, dataset: DatasetUse | PairSetUse) -> list[str]:
        """Labels of the judges of a data set's answers, the one that scores use first. A name without its sweep means all points of it."""
        labels = [judge.label for judge in self.judges]
        if dataset.judges is None:
            return labels
        return [label for name in dataset.judges for label in labels if name in (label, label.split("@")[0])]

    def cells(self) -> int:
        """Models x data sets x variants x estimators (at least one of each)."""
        return len(self.models) * len(self.evaluated) * (1 + len(self.perturbations)) * max(1, len(self.estimators))


def resolve_file(path: Path, root: Path, run_wide: RunWide, within: tuple[str, ...] = ()) -> Resolved:
    """Read, check and spell out a spec.

    Args:
        path: of the spec.
        root: of the checkout.
        run_wide: params.yaml.
        within: specs that read models of this one, and are being resolved.

    Raises:
        SpecError: with every problem found.
    """
    document = load(path, root)
    problems: list[Problem] = []
    spec = check.model(Spec, document, problems)
    if spec is None:
        raise SpecError(problems, document.sources)
    if spec.name != path.stem:
        problems.append(document.problem(("name",), f"expected the file's own name '{path.stem}', got '{spec.name}'"))
    inner = (*within, spec.name)
    elsewhere = Elsewhere(root / "specs", inner, lambda other: resolve_file(other, root, run_wide, inner))
    resolved = _Resolver(document, spec, run_wide, problems, elsewhere).resolve()
    if problems:
        raise SpecError(problems, document.sources)
    return resolved


def read_run_wide(root: Path) -> RunWide:
    """params.yaml, checked."""
    document = load(root / "params.yaml", root)
    problems: list[Problem] = []
    found = check.model(RunWide, document, problems)
    if found is None:
        raise SpecError(problems, document.sources)
    return found


class _Resolver:
    def __init__(self, document: Document, spec: Spec, run_wide: RunWide, problems: list[Problem], elsewhere: Elsewhere) -> None:
        self.document, self.spec, self.run_wide, self.problems = document, spec, run_wide, problems
        self._elsewhere = elsewhere

    def resolve(self) -> Resolved:
        spec = self.spec
        self._own_values()
        finetunes = self._finetunes()
        pairs = PairResolver(spec, self._problem, self._single, self._combinations).resolve()
        datasets = self._datasets({d for f in finetunes for d in f.datasets} | {d for s in pairs for d in s.sources})
        models = self._models(finetunes)
        resolved = Resolved(
            spec=spec,
            seed=spec.seed if spec.seed is not None else self.run_wide.seed,
            files=tuple(self.document.files),
            datasets=datasets,
            pairs=pairs,
            models=models,
            finetunes=finetunes,
            perturbations=self._refs("perturbations", spec.perturbations, always_label=True),
            judges=self._refs("judges", spec.judges, in_order=True),
            estimators=self._refs("estimators", spec.estimators),
            conformal=self._conformal(),
            abstentions=abstentions.resolve(spec, [m.ref.label for m in models], self._single, self._combinations, self._problem),
            metrics=self._with_companions(self._refs("metrics", spec.metrics)),
        )
        self._references(resolved)
        return resolved

    # -- sections ---------------------------------------------------------------------------------------------------

    def _own_values(self) -> None:
        known = [s for section in ("datasets", "pairs", "models", "finetunes") for s in getattr(self.spec, section)]
        for section in ("pairs", "models", "finetunes"):
            for name in getattr(self.spec, section):
                if known.count(name) > 1:
                    self._problem((section, name), f"the name '{name}' is given to two of datasets, pairs, models and finetunes", key=True)

    def _datasets(self, trained_on: set[str]) -> tuple[DatasetUse, ...]:
        found: list[DatasetUse] = []
        read = {name: one for name, entry in self.spec.datasets.items() if (one := self._card(entry.card, ("datasets", name, "card")))}
        selected = {
            name: subsets.expressions(self.spec.datasets[name], ("datasets", name), card, adapter, self.document, self._problem_at)
            for name, (card, adapter) in read.items()
        }
        for name, (card, adapter) in read.items():
            path: Path_ = ("datasets", name)
            entry = self.spec.datasets[name]
            select: dict[str, Any] = dict(selected[name])
            if apart := subsets.disjoint(name, self.spec.datasets, selected, self._problem):
                select["disjoint"] = apart
            select |= subsets.asked(entry, path, self._problem)
            if entry.skip_bad:
                select["skip_bad"] = True
            given = {**{k: v for k, v in card.args.items() if k not in (entry.model_extra or {})}, **(entry.model_extra or {})}
            source = entry.source or (card.name if card.layout else None)
            limit = entry.limit if entry.limit is not None else self.run_wide.limit
            evaluate = entry.evaluate if entry.evaluate is not None else name not in trained_on
            if adapter is None:
                self._no_parameters(given, path)
            for swept, args, prepare in self._prepared(adapter, given, entry, path) if adapter else [({}, {}, None)]:
                splits = tuple(sorted(set(entry.splits))) if entry.splits is not None else None
                label = check.label(name, swept)
                found.append(
                    DatasetUse(
                        label,
                        card.name,
                        adapter,
                        args,
                        limit,
                        source,
                        evaluate,
                        splits,
                        card.missing,
                        select,
                        artifact_path(entry.curated) if entry.curated else None,
                        entry.unreviewed,
                        subsets.named(card, adapter),
                        prepare,
                        None if entry.judges is None else tuple(entry.judges),
                    )
                )
        return tuple(sorted(found, key=lambda d: d.label))

    def _prepared(
        self, adapter: Plugin, given: Mapping[str, Any], entry: Dataset, path: Path_
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any], Ref | None]]:
        """Every combination of an adapter's parameters and of what is made of its samples."""
        known = replace(adapter, parameters=(*adapter.parameters, PREPARE))
        for swept, whole in self._combinations(known, {**given, PREPARE.name: entry.prepare}, path):
            one, args = whole[PREPARE.name], {name: value for name, value in whole.items() if name != PREPARE.name}
            plugin = plugins.get("preparations", one["plugin"]) if one else None
            yield swept, located(adapter, args), Ref(plugin.name, plugin, located(plugin, one["args"])) if plugin else None

    def _card(self, name: str, path: Path_) -> tuple[cards.Card, Plugin | None] | None:
        """The card of a data set and its adapter, where something reads it."""
        try:
            card = cards.load_card(name)
        except cards.CardError as error:
            self._problem(path, str(error))
            return None
        if card.kind != "dataset":
            self._problem(path, f"expected the card of a data set, got '{name}', which is a {card.kind}")
            return None
        adapter = self._plugin("datasets", card.adapter, path) if card.adapter else None
        return (card, adapter) if adapter or not card.adapter else None

    def _no_parameters(self, given: Mapping[str, Any], path: Path_) -> None:
        for name in given:
            self._problem((*path, name), f"unknown key '{name}'", "nothing reads this card's data yet, so it has no parameters", key=True)

    def _models(self, finetunes: tuple[FinetuneUse, ...]) -> tuple[ModelUse, ...]:
        found: list[ModelUse] = []
        for name, entry in self.spec.models.items():
            path: Path_ = ("models", name)
            about = self._about(entry, path)
            left_out = self._left_out(entry, path)
            one = self._single({k: v for k, v in entry.items() if k not in BESIDE}, "models", path)
            if one is None:
                continue
            plugin, given, at = one
            for swept, args in self._combinations(plugin, given, at):
                sources = names_in(plugin, args, Artifact)
                ref = Ref(check.label(name, swept), plugin, located(plugin, args))
                source = artifact_path(sources[0]) if sources else None
                beneath = tuple(b for a in sources for b in self._elsewhere.beneath(a))
                found.append(ModelUse(ref, source, about, plugins.gives(plugin, args), beneath, left_out))
        found += tuned_models(self.spec.name, finetunes, found, self._loader)
        for tuned, name in swept_bases(finetunes, found):
            message = f"'{name}' is a sweep over several models; a fine-tune begins from one"
            self._problem(("finetunes", tuned), message, "name each value of the sweep as a model of its own")
        return tuple(sorted(found, key=lambda m: m.ref.label))

    def _loader(self, tuned: FinetuneUse) -> tuple[Plugin, dict[str, Any]] | None:
        """What loads a tuned model, and its parameters where nothing else is known."""
        loader = self._plugin("models", tuned.ref.plugin.declares.get("LOADS_WITH", "hf_vlm"), ("finetunes",))
        if loader is None:
            return None
        return loader, {**{p.name: p.default for p in loader.parameters}, **self._run_wide_dtype(loader, {})}

    def _about(self, entry: Mapping[str, Any], path: Path_) -> dict[str, Any]:
        if entry.get("about") is None:
            return {}
        part = Document(entry["about"], {(): self.document.mark((*path, "about"))}, {}, {})
        for place, mark in self.document.marks.items():
            if place[: len(path) + 1] == (*path, "about"):
                part.marks[place[len(path) + 1 :]] = mark
        found = check.model(About, part, self.problems)
        return found.model_dump(exclude_none=True) if found else {}

    def _left_out(self, entry: Mapping[str, Any], path: Path_) -> frozenset[str]:
        given = [] if entry.get("leave_out") is None else entry["leave_out"]
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._problem((*path, "leave_out"), f"expected a list of estimators' names, got {shown(given)}")
            return frozenset()
        return frozenset(given)

    def _finetunes(self) -> tuple[FinetuneUse, ...]:
        found: list[FinetuneUse] = []
        for name, entry in self.spec.finetunes.items():
            one = self._single(entry, "finetunes", ("finetunes", name))
            if one is None:
                continue
            plugin, given, at = one
            for swept, args in self._combinations(plugin, given, at):
                uses: dict[type, list[str]] = {DatasetName: [], ModelName: []}
                for kind, known in (
                    (DatasetName, {**self.spec.datasets, **self.spec.pairs}),
                    (ModelName, {**self.spec.models, **self.spec.finetunes}),
                ):
                    for parameter in plugin.parameters:
                        for used in names_of(parameter.annotation, args.get(parameter.name), kind):
                            uses[kind].append(used)
                            if used not in known:
                                what = "dataset" if kind is DatasetName else "model"
                                self._problem((*at, parameter.name), f"expected a {what} of this spec, got '{used}'", nearest(used, known))
                ref = Ref(check.label(name, swept), plugin, located(plugin, args))
                found.append(FinetuneUse(ref, tuple(sorted(set(uses[DatasetName]))), tuple(sorted(set(uses[ModelName])))))
        return tuple(sorted(found, key=lambda f: f.ref.label))

    def _conformal(self) -> tuple[ConformalUse, ...]:
        found: list[ConformalUse] = []
        for name, entry in self.spec.conformal.items():
            path: Path_ = ("conformal", name)
            scores = self._refs("conformal", entry.scores, at=(*path, "scores"))
            own = {k: v for k, v in entry.model_dump().items() if k not in ("scores", "calibration")}
            inner = entry.calibration.model_dump()
            for swept, args in check.combinations(_CONFORMAL, own, self.document, path, self.problems, "conformal"):
                split = check.combinations(_CALIBRATION, inner, self.document, (*path, "calibration"), self.problems, "calibration")
                for swept_inner, calibration in split:
                    label = check.label(name, {**swept, **swept_inner})
                    found.append(ConformalUse(label, scores, {**args, "calibration": calibration}))
        return tuple(sorted(found, key=lambda c: c.label))

    # -- references between sections ----------------------------------------------------------------------------------

    def _references(self, resolved: Resolved) -> None:
        spec = self.spec
        self._compared(resolved.scored_models)
        for path, message, hint in estimators.faults(resolved):
            self._problem(path, message, hint)
        if spec.inference.confidence == "verify":
            for model in (m for m in resolved.models if "p_yes" not in m.gives):
                message = f"`verify` asks every model to verify its answers, which '{model.ref.label}' ({model.ref.plugin.name}) cannot"
                self._problem(("inference", "confidence"), message, way_out(model, ["p_yes"]) or "use `sequence`")
        for name in spec.conformal:
            for model in (m for m in resolved.models if "option_logits" not in m.gives):
                message = f"conformal sets need option_logits, which the model '{model.ref.label}' cannot give"
                self._problem(("conformal", name), message, way_out(model, ["option_logits"]), key=True)
        for path, message, hint in measured.faults(resolved):
            self._problem(path, message, hint)
        self._judged_by(resolved)
        if spec.judging.labels is not None and not spec.judges:
            self._problem(("judging", "labels"), "expected a judge to hold to these labels, found none", "add `judges:`")
        if spec.metrics and not (spec.models or spec.finetunes):
            self._problem(("metrics",), "expected a model to compute metrics of, found none", "add `models:`")
        self._recipes_read_one_dataset_each(resolved)
        self._same_paths([*(("datasets", d.label) for d in resolved.data), *(("models", m.ref.label) for m in resolved.models)])

    def _judged_by(self, resolved: Resolved) -> None:
        labels = [judge.label for judge in resolved.judges]
        known = sorted({*labels, *(label.split("@")[0] for label in labels)})
        places = [("datasets", name, one.judges) for name, one in self.spec.datasets.items()]
        places += [("pairs", name, one.judges) for name, one in self.spec.pairs.items()]
        for section, name, judges in places:
            for i, judge in enumerate(judges or ()):
                if judge not in known:
                    self._problem((section, name, "judges", i), f"expected a judge of this spec, got '{judge}'", nearest(judge, known))

    def _recipes_read_one_dataset_each(self, resolved: Resolved) -> None:
        labels = {d.label for d in resolved.data}
        for pairs in resolved.pairs:
            for name in (n for n in pairs.sources if n in self.spec.datasets and n not in labels):
                if points := sorted(label for label in labels if label.split("@")[0] == name):
                    message = f"recipes read one dataset, and '{name}' is a sweep of {len(points)}: {', '.join(points)}"
                    self._problem(("pairs", pairs.label), message, "give each of them a name of its own under `datasets:`", key=True)

    def _compared(self, names: list[str]) -> None:
        compare = self.spec.compare
        places: list[tuple[Path_, str]] = [] if compare.baseline is None else [(("compare", "baseline"), compare.baseline)]
        places += [(("compare", "pairs", i, k), name) for i, pair in enumerate(compare.pairs) for k, name in enumerate(pair)]
        for path, name in places:
            if name not in names:
                self._problem(path, f"expected a model of this spec, got '{name}'", nearest(name, names))
        for i, pair in enumerate(compare.pairs):
            if pair[0] == pair[1]:
                self._problem(("compare", "pairs", i), f"expected two different models, got '{pair[0]}' twice")

    def _same_paths(self, named: Iterable[tuple[str, str]]) -> None:
        seen: dict[tuple[str, str], str] = {}
        for section, name in named:
            key = (section, slug(name).lower())
            if key in seen and seen[key] != name:
                self._problem((section,), f"'{seen[key]}' and '{name}' would lie in the same folder", "rename one of them")
            seen[key] = name

    # -- plugins --------------------------------------------------------------------------------------------------------

    def _refs(self, kind: str, given: list[Any], at: Path_ = (), always_label: bool = False, in_order: bool = False) -> tuple[Ref, ...]:
        at = at or (kind,)
        found: dict[str, Ref] = {}
        for i, item in enumerate(given):
            one = self._single({item: None} if isinstance(item, str) else item, kind, (*at, i), named=not isinstance(item, str))
            if one is None:
                continue
            plugin, params, path = one
            known = replace(plugin, parameters=(*plugin.parameters, *OWN.get(kind, ())))
            for swept, given_args in self._combinations(known, params, path):
                own = {p.name: given_args[p.name] for p in OWN.get(kind, ())}
                args = {k: v for k, v in given_args.items() if k not in own}
                named_args = {k: v for k, v in params.items() if isinstance(v, Mapping)}  # nested plugins, as the spec names them
                told = {**args, **named_args, **swept} if always_label else swept
                shown_args = {k: v for k, v in told.items() if k in params and k not in own}
                label = check.label(plugin.name, shown_args)
                if label in found:
                    self._problem((*at, i), f"'{label}' is named twice")
                found[label] = Ref(label, plugin, located(plugin, args), **own)
        return tuple(found.values() if in_order else sorted(found.values(), key=lambda r: r.label))

    def _with_companions(self, metrics: tuple[Ref, ...]) -> tuple[Ref, ...]:
        """And those without which one of them misleads, with its own values of the parameters that both have."""
        found = {ref.label: ref for ref in metrics}
        for ref in metrics:
            for name in ref.plugin.declares.get("COMPANIONS", ()):
                plugin = plugins.get("metrics", name)
                args = {p.name: ref.args.get(p.name, p.default) for p in plugin.parameters}
                label = check.label(name, {k: v for k, v in args.items() if v != {p.name: p.default for p in plugin.parameters}[k]})
                if not any(other.plugin.name == name and other.args == args for other in found.values()):
                    found[label] = Ref(label, plugin, args)
        return tuple(sorted(found.values(), key=lambda r: r.label))

    def _single(self, item: Any, kind: str, path: Path_, named: bool = True) -> tuple[Plugin, dict[str, Any], Path_] | None:
        """`{plugin: {parameters}}` with exactly one plugin."""
        if not isinstance(item, dict) or len(item) != 1:
            got = f"{len(item)} names: {', '.join(map(str, item))}" if isinstance(item, dict) and item else shown(item)
            self._problem(path, f"expected one plugin of {kind}, as `name` or `name: {{parameters}}`, got {got}")
            return None
        name, params = next(iter(item.items()))
        place = (*path, name) if named else path
        if params is not None and not isinstance(params, dict):
            self._problem(place, f"expected the parameters of {name} as a mapping, got {shown(params)}")
            return None
        plugin = self._plugin(kind, str(name), place)
        return (plugin, params or {}, place) if plugin else None

    def _plugin(self, kind: str, name: str, path: Path_) -> Plugin | None:
        try:
            return plugins.get(kind, name)
        except PluginError as error:
            self._problem(path, str(error), key=True)
            return None

    def _combinations(self, plugin: Plugin, given: Mapping[str, Any], path: Path_) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        before = len(self.problems)
        fallbacks = {"dtype": self.run_wide.dtype}
        found = check.combinations(plugin.parameters, given, self.document, path, self.problems, plugin.name, fallbacks)
        for name in dict.fromkeys(a for _, args in found for a in names_in(plugin, args, Artifact) if len(self.problems) == before):
            message, hint = self._elsewhere.fault(name)
            if message:
                self._problem(path, message, hint)
        return found if len(self.problems) == before else []

    def _run_wide_dtype(self, plugin: Plugin, given: dict[str, Any]) -> dict[str, Any]:
        if "dtype" not in given and any(p.name == "dtype" for p in plugin.parameters):
            return {**given, "dtype": self.run_wide.dtype}
        return given

    def _problem_at(self, mark: Mark, path: str, message: str, hint: str) -> None:
        self.problems.append(Problem(mark, path, message, hint))

    def _problem(self, path: Path_, message: str, hint: str = "", key: bool = False) -> None:
        self.problems.append(self.document.problem(path, message, hint, key))


_Share = Annotated[float, Gt(0), Lt(1)]
_CONFORMAL = (
    Parameter("alpha", _Share, 0.1, "float"),
    Parameter("quantile", Literal["standard", "numpy_higher"], "standard", "str"),
    Parameter("empty_set", Literal["argmax", "empty"], "argmax", "str"),
)
_CALIBRATION = (
    Parameter("fraction", _Share, 0.5, "float"),
    Parameter("seed", int, 42, "int"),
    Parameter("split", Literal["groups", "rows"], "groups", "str"),
)
