"""A resolved spec -> the frozen plan of its stages. Pure: reads source files for their imports and nothing else.

Stage shape follows what DVC costs: a stage is minutes of work (a data set, a model's answers to a data set over all
variants, the scores), never one cell of the product. What lies below a stage is kept incremental by the sample store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.closure import closure, content_digest
from compiler.errors import Mark, Problem, SpecError
from compiler.pairsets import PairSetUse, RecipeUse
from compiler.refs import DATA, Ref, artifact_path, slug
from compiler.resolve import DatasetUse, Resolved
from compiler.tuned import FinetuneUse, ModelUse
from registry import CLEAN, DRAWS, MODALITIES
from registry.cards import load_card
from registry.columns import CHOICES, DRAWN, IN_WORDS, QUESTION, signals
from registry.plugins import DVC_IGNORES, ROOT, Plugin
from runners.params import to_mappings

MAX_STAGES = 100
"""Beyond this many stages one model's answers to all data sets become one stage (DVC's cost grows with the square)."""

LATER_STAGES = 6
"""judge, estimate, calibrate, abstain, score, report."""

GREEDY_SIGNALS = ("text", "token_entropies", "token_logprobs")
"""One greedy decode gives all three, so needing one is needing all: a new estimator on them costs no inference."""

VALIDATION = "val"
"""The split on which thresholds are chosen: answered, not scored."""

SEEDED = ("data", "pair", "perturb", "finetune", "infer", "score", "report")


@dataclass(frozen=True)
class PlannedStage:
    """One stage: what it is told, what it reads, what it writes, and which files implement it."""

    name: str
    kind: str
    desc: str
    params: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    seed: int
    code: tuple[str, ...]
    kept_in_git: frozenset[str] = frozenset()
    """Keys of `outputs` that are small and readable: in git, not in the DVC cache."""
    package: str = ""
    """SHA-256 of the files that implement it where they are an installed package's: then `code` is empty and this a parameter."""
    folders: frozenset[str] = frozenset()
    """Folders that stand for the paths within them, so that a stage of two hundred files is one line to DVC."""

    @property
    def deps(self) -> tuple[str, ...]:
        return tuple(sorted({*map(self._shown, leaves(self.inputs)), *self.code}))

    @property
    def outs(self) -> tuple[str, ...]:
        return tuple(sorted({*map(self._shown, leaves(self.outputs))}))

    def _shown(self, path: str) -> str:
        folder = path.rpartition("/")[0]
        return folder if folder in self.folders else path

    @property
    def tracked(self) -> dict[str, Any]:
        """What of the stage's JSON DVC compares; the paths beside it stand in dvc.yaml already."""
        return {"params": to_mappings(self.params), "seed": self.seed, **({"package": self.package} if self.package else {})}

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "inputs": self.inputs, "outputs": self.outputs, **self.tracked}


@dataclass(frozen=True)
class Plan:
    """All stages of one spec, in an order in which they can run."""

    spec: str
    title: str
    stages: tuple[PlannedStage, ...]
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Models made here: name -> path."""

    @property
    def reads(self) -> frozenset[str]:
        """Names of the other specs whose models it reads."""
        parts = (path.split("/") for stage in self.stages for path in stage.deps)
        return frozenset(p[1] for p in parts if p[0] == "results" and p[1] != self.spec)

    def stage(self, name: str) -> PlannedStage:
        return next(s for s in self.stages if s.name == name)


def leaves(tree: Any) -> Iterator[str]:
    """The paths in nested mappings of paths."""
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    else:
        yield str(tree)


def make_plan(resolved: Resolved, root: Path = ROOT) -> Plan:
    """The stages that rebuild this spec's results.

    Raises:
        SpecError: two stages would write one path, or stages wait for each other.
    """
    stages = _Planner(resolved, root).stages()
    _check_outputs(stages, resolved)
    artifacts = {f.ref.label: _place(resolved, "models", f.ref.label) for f in resolved.finetunes}
    return Plan(resolved.spec.name, resolved.spec.title, tuple(_ordered(stages, resolved)), artifacts)


def _first(judges: Sequence[str], for_choices: Container[str]) -> str | None:
    """The first judge that is for open answers; where there is none, the first."""
    return min(judges, key=lambda label: label in for_choices, default=None)


def _place(resolved: Resolved, *parts: str) -> str:
    return "/".join(("results", resolved.spec.name, *(slug(p) for p in parts)))


def _card(folder: str) -> str:
    """Where the card of a data set lies: beside its folder."""
    return f"{folder}.md"


def _made(folder: str) -> dict[str, Any]:
    """A data set and its card."""
    return {"dataset": folder, "card": _card(folder)}


class _Planner:
    def __init__(self, resolved: Resolved, root: Path) -> None:
        self.r, self.root = resolved, root
        self.code_root = root if (root / "runners").is_dir() else ROOT
        self.evaluated = resolved.evaluated
        self.data = {d.label: _place(resolved, "data", d.label) for d in resolved.data}
        curated = [d for d in resolved.datasets if d.reviews is not None]
        self.whole = {d.label: self.data[d.label] for d in curated}
        self.data |= {d.label: _place(resolved, "curated", d.label) for d in curated}
        self.generations = {
            m.ref.label: {d.label: f"{_place(resolved, 'generations', m.ref.label, d.label)}.parquet" for d in self.evaluated}
            for m in resolved.models
        }
        self.made = {
            p.label: {d.label: _place(resolved, "perturbed", p.label, d.label) for d in self.evaluated}
            for p in resolved.perturbations
            if p.is_stage
        }
        makes = len(self.data) + len(self.whole) + sum(len(s.recipes) for s in resolved.pairs) + len(resolved.finetunes) + len(self.made)
        self.coarse = makes + len(resolved.models) * len(self.evaluated) + LATER_STAGES > MAX_STAGES
        places = {_place(resolved, "generations", m.ref.label) for m in resolved.models}
        self.folders = frozenset(places if self.coarse else ())

    def stages(self) -> list[PlannedStage]:
        r = self.r
        found = [*map(self._data, r.datasets), *(self._curate(d) for d in r.datasets if d.label in self.whole)]
        for pairs in r.pairs:
            found += [*(self._pair(pairs, recipe) for recipe in pairs.recipes), self._assemble(pairs)]
        found += map(self._finetune, r.finetunes)
        if not r.models or not self.evaluated:
            return found
        found += (self._perturb(p) for p in r.perturbations if p.label in self.made)
        found += self._infer_stages()
        tables = {"datasets": {d.label: self.data[d.label] for d in self.evaluated}, "generations": self.generations}
        per_sample = list(self._per_sample_stages(tables))
        if r.abstentions:
            per_sample.append(self._abstain(tables, per_sample[0].outputs))
        found += per_sample
        if r.metrics:
            made = {key: path for stage in per_sample for key, path in stage.outputs.items()}
            score = self._score(tables, made)
            found.append(score)
            found.append(self._report({**tables, **made, **score.outputs}, found))
        return found

    def _per_sample_stages(self, tables: dict[str, Any]) -> Iterator[PlannedStage]:
        r, place = self.r, _place(self.r)
        if r.judges:
            params: dict[str, Any] = {"judges": [j.as_json() for j in r.judges]}
            if only := {d.label: r.judges_of(d) for d in self.evaluated if d.judges is not None}:
                params["only"] = only
            inputs, outputs = dict(tables), {"judgements": f"{place}/judgements.parquet"}
            if r.spec.judging.labels:
                inputs["labels"] = artifact_path(r.spec.judging.labels)
                outputs["judging"] = f"{place}/judging.json"
            yield self._stage(
                "judge", "judge", "Judge open answers", params, inputs, outputs, r.judges, frozenset(outputs.keys() & {"judging"})
            )
        if r.estimators:
            params, inputs = {"estimators": [e.as_json() for e in r.estimators]}, {"generations": self.generations}
            read = {column for e in r.estimators for column in e.reads}
            if read & DRAWN.keys():
                params["draws"] = r.spec.inference.draws
            left_out = {m.ref.label: [e.label for e in r.estimators if not m.asked_for(e)] for m in r.models}
            if any(left_out.values()):
                params["left_out"] = {model: labels for model, labels in left_out.items() if labels}
            if QUESTION in read:
                inputs["datasets"] = tables["datasets"]
            outputs = {"uncertainties": f"{place}/uncertainties.parquet"}
            yield self._stage("estimate", "estimate", "Estimate uncertainty", params, inputs, outputs, r.estimators)
        if r.conformal:
            outputs = {"sets": f"{place}/conformal_sets.parquet", "thresholds": f"{place}/conformal_thresholds.parquet"}
            params = {"settings": self._settings(), **self._splits(self.evaluated)}
            used = [s for c in r.conformal for s in c.scores]
            yield self._stage("calibrate", "calibrate", "Calibrate conformal sets", params, tables, outputs, used)

    def _abstain(self, tables: dict[str, Any], judged: dict[str, str]) -> PlannedStage:
        r, place = self.r, _place(self.r)
        params = {
            "abstentions": [a.as_json() for a in r.abstentions],
            **self._scoring_judges(),
            "confidence": r.spec.inference.confidence,
            **self._splits(self.evaluated),
        }
        of = {model for a in r.abstentions for model in a.of}
        inputs = {**tables, **judged, "generations": {m: files for m, files in self.generations.items() if m in of}}
        outputs = {"abstentions": f"{place}/abstentions.parquet", "abstention_rules": f"{place}/abstention_rules.parquet"}
        used = [a.plugin for a in r.abstentions]
        return self._stage("abstain", "abstain", "Choose when to decline", params, inputs, outputs, used)

    def _settings(self) -> list[dict[str, Any]]:
        return [{"label": c.label, "scores": [s.as_json() for s in c.scores], **c.args} for c in self.r.conformal]

    def _stage(
        self,
        name: str,
        kind: str,
        desc: str,
        params: dict[str, Any],
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        used: Any = (),
        kept_in_git: frozenset[str] = frozenset(),
    ) -> PlannedStage:
        plugins: list[Plugin] = [p for u in used for p in (u.plugins if isinstance(u, Ref) else [u])]
        known = set(leaves(inputs))
        artifacts = {path.removeprefix(f"{DATA}/"): path for u in used if isinstance(u, Ref) for path in u.artifacts if path not in known}
        if artifacts:
            inputs = {**inputs, "artifacts": artifacts}
        files = [f"runners/{kind}.py", *(_relative(p, self.code_root) for p in plugins)]
        code = closure([f for f in files if f], self.code_root)
        ours = self.code_root == self.root
        package = "" if ours else content_digest(code, self.code_root)
        for key in _keys([params, inputs, outputs]) & DVC_IGNORES:
            raise SpecError([_clash(self.r, f"the name '{key}' is one that DVC's run cache does not see")])
        seed = self.r.seed if kind in SEEDED else 0
        return PlannedStage(name, kind, desc, params, inputs, outputs, seed, code if ours else (), kept_in_git, package, self.folders)

    def _data(self, d: DatasetUse) -> PlannedStage:
        params: dict[str, Any] = {"dataset": d.label, "card": d.card, "adapter": None, "args": d.args, "limit": d.limit}
        params |= {"adapter": d.adapter.name} if d.adapter else {"missing": d.missing}
        params |= d.select
        params |= {"prepare": {"plugin": d.prepare.plugin.name, "args": d.prepare.args}} if d.prepare else {}
        card = load_card(d.card)
        params["about"] = {"title": card.title, "licence": card.licence, "citation": card.citation, "source": card.source}
        inputs = {"source": f"registry/data/{d.source}"} if d.source else {}
        inputs |= {"ask": d.select["ask"]} if "ask" in d.select else {}
        return self._stage(
            f"data-{slug(d.label)}",
            "data",
            f"Samples of {d.label}",
            params,
            inputs,
            _made(self.whole.get(d.label, self.data[d.label])),
            [*([Ref(d.label, d.adapter, d.args)] if d.adapter else []), *([d.prepare] if d.prepare else [])],
        )

    def _curate(self, d: DatasetUse) -> PlannedStage:
        params: dict[str, Any] = {"dataset": d.label, "unreviewed": d.unreviewed, **self._splits([d])}
        params |= {"subsets": dict(d.subsets)} if d.subsets else {}
        inputs = {**_made(self.whole[d.label]), "reviews": d.reviews}
        return self._stage(f"curate-{slug(d.label)}", "curate", f"What people kept of {d.label}", params, inputs, _made(self.data[d.label]))

    def _pair(self, pairs: PairSetUse, recipe: RecipeUse) -> PlannedStage:
        ref = recipe.ref
        params = {**ref.as_json(), "about": recipe.about}
        inputs = {"datasets": {name: self.data[name] for name in recipe.datasets}}
        name = f"pair-{slug(pairs.label)}-{slug(ref.label)}"
        outputs = {"pairs": _place(self.r, "pairs", pairs.label, ref.label)}
        return self._stage(name, "pair", f"Pairs of {pairs.label}: {ref.label}", params, inputs, outputs, [ref])

    def _assemble(self, pairs: PairSetUse) -> PlannedStage:
        params: dict[str, Any] = {
            "dataset": pairs.label,
            "recipes": [recipe.ref.label for recipe in pairs.recipes],
            "near_duplicates": pairs.near_duplicates,
        }
        inputs: dict[str, Any] = {
            "recipes": {recipe.ref.label: _place(self.r, "pairs", pairs.label, recipe.ref.label) for recipe in pairs.recipes},
            "datasets": {name: self.data[name] for name in pairs.sources},
        }
        if pairs.reviews is not None:
            inputs["reviews"] = pairs.reviews
            params["unreviewed"] = pairs.unreviewed
        inputs["cards"] = {name: _card(self.data[name]) for name in pairs.sources}
        outputs = _made(self.data[pairs.label])
        return self._stage(f"data-{slug(pairs.label)}", "assemble", f"Assemble the pairs of {pairs.label}", params, inputs, outputs)

    def _finetune(self, f: FinetuneUse) -> PlannedStage:
        r, ref = self.r, f.ref
        inputs: dict[str, Any] = {"datasets": {label: place for label, place in self.data.items() if label.split("@")[0] in f.datasets}}
        bases = {m.ref.label: m.source for m in r.models if m.ref.label in f.models and m.source}
        if bases:
            inputs["models"] = bases
        inputs |= _beneath([m for m in r.models if m.ref.label in f.models])
        outputs = {"model": _place(r, "models", ref.label), "log": f"{_place(r, 'training', ref.label)}.csv"}
        begun = [m.ref for m in r.models if m.ref.label in f.models]
        params = {
            "name": ref.label,
            "plugin": ref.plugin.name,
            "args": ref.args,
            "models": {m.label: {"plugin": m.plugin.name, "args": m.args} for m in begun},
            "max_new_tokens": r.spec.inference.max_new_tokens,
        }
        name = f"finetune-{slug(ref.label)}"
        return self._stage(name, "finetune", f"Train {ref.label}", params, inputs, outputs, [ref, *begun], frozenset({"log"}))

    def _perturb(self, p: Ref) -> PlannedStage:
        params: dict[str, Any] = {**self._variant(p), **self._splits(self.evaluated)}
        if any(a.options["fit"] == VALIDATION for a in self.r.abstentions):
            params["also"] = [VALIDATION]
        inputs = {"datasets": {d.label: self.data[d.label] for d in self.evaluated}}
        inputs["cards"] = {name: _card(path) for name, path in inputs["datasets"].items()}
        outputs = {"perturbed": self.made[p.label], "cards": {name: _card(path) for name, path in self.made[p.label].items()}}
        return self._stage(f"perturb-{slug(p.label)}", "perturb", f"Perturb by {p.label}", params, inputs, outputs, [p])

    @staticmethod
    def _variant(p: Ref) -> dict[str, Any]:
        return {"variant": p.label, "plugin": p.plugin.name, "modality": p.plugin.declares.get("MODALITY"), "args": p.args}

    def _infer_stages(self) -> Iterator[PlannedStage]:
        for model in self.r.models:
            if self.coarse:
                yield self._infer(model, self.evaluated, f"infer-{slug(model.ref.label)}")
            else:
                for d in self.evaluated:
                    yield self._infer(model, [d], f"infer-{slug(model.ref.label)}-{slug(d.label)}")

    def _infer(self, model: ModelUse, datasets: list[DatasetUse | PairSetUse], name: str) -> PlannedStage:
        r = self.r
        variants: list[dict[str, Any]] = [{"variant": CLEAN, "plugin": None, "args": {}}]
        for p in r.perturbations:
            variants.append({**self._variant(p), **({"made": True} if p.label in self.made else {})})
        params = {
            "model": model.ref.as_json(),
            "variants": variants,
            "needs": self._needs(model),
            "max_new_tokens": r.spec.inference.max_new_tokens,
            **self._splits(datasets),
        }
        if DRAWS in params["needs"]:
            params |= {"draws": r.spec.inference.draws, "temperature": r.spec.inference.temperature, "top_p": r.spec.inference.top_p}
        if any(a.options["fit"] == VALIDATION and model.ref.label in a.of for a in r.abstentions):
            params["also"] = [VALIDATION]
        if "option_logits" not in model.gives and any(CHOICES in j.plugin.reads for j in r.judges):
            params[IN_WORDS] = True
        inputs: dict[str, Any] = {"datasets": {d.label: self.data[d.label] for d in datasets}}
        if model.source:
            inputs["model"] = model.source
        inputs |= _beneath([model])
        if self.made:
            inputs["perturbed"] = {label: {d.label: folders[d.label] for d in datasets} for label, folders in self.made.items()}
        outputs = {"generations": {d.label: self.generations[model.ref.label][d.label] for d in datasets}}
        desc = f"Answers of {model.ref.label} to {', '.join(d.label for d in datasets)}"
        return self._stage(
            name, "infer", desc, params, inputs, outputs, [model.ref, *(p for p in r.perturbations if p.label not in self.made)]
        )

    @staticmethod
    def _splits(datasets: Sequence[DatasetUse | PairSetUse]) -> dict[str, Any]:
        """The splits that the spec names; nothing for data sets where it leaves the choice to `runners.splits`."""
        found = {d.label: list(d.splits) for d in datasets if d.splits is not None}
        return {"splits": found} if found else {}

    def _scoring_judges(self) -> dict[str, Any]:
        """Whose ratings of open answers are scored: the spec's first judge's, but of data sets that name their own, the first of those."""
        for_choices = {j.label for j in self.r.judges if CHOICES in j.plugin.reads}
        own = {d.label: _first(self.r.judges_of(d), for_choices) for d in self.evaluated if d.judges is not None}
        return {"judge": _first([j.label for j in self.r.judges], for_choices), **({"judge_of": own} if own else {})}

    def _needs(self, model: ModelUse) -> list[str]:
        wanted = {"option_logits"} | signals(column for e in self.r.estimators if model.asked_for(e) for column in e.reads)
        if self.r.judges or wanted - {"option_logits"}:
            wanted |= set(GREEDY_SIGNALS)
        if self.r.spec.inference.confidence == "verify":
            wanted.add("p_yes")
        return sorted(wanted & model.gives)

    def _score(self, tables: dict[str, Any], made: dict[str, str]) -> PlannedStage:
        r, place = self.r, _place(self.r)
        interval = r.spec.compare.interval
        params: dict[str, Any] = {
            "metrics": [m.as_json() for m in r.metrics],
            "slices": sorted(set(r.spec.slices)),
            "interval": {"bootstrap": interval.bootstrap, "level": interval.level},
            **self._scoring_judges(),
            "confidence": r.spec.inference.confidence,
            **self._splits(self.evaluated),
        }
        params |= self._unscored()
        if r.spec.compare.baseline or r.spec.compare.pairs:
            params["compare"] = r.spec.compare.model_dump(exclude={"interval"})
        inputs = {**tables, **{k: v for k, v in made.items() if k not in ("thresholds", "abstention_rules", "judging")}}
        plots = {k: f"{place}/plots/{k}.csv" for k in ("reliability", "risk_coverage", "set_sizes")}
        outputs = {"scores": f"{place}/scores.parquet", "metrics": f"{place}/metrics.json", **plots}
        if r.perturbations and any("TEST" in m.plugin.declares for m in r.metrics):
            params["tests"] = self._tests()
            outputs["effects"] = f"{place}/effects.parquet"
            params |= self._about_perturbations()
            plots |= {k: f"{place}/plots/{k}.csv" for k in ("sweeps", "urr", "hcc")}
            outputs |= plots
            outputs |= {k: f"{place}/{k}.parquet" for k in ("modality_scores", "rank_stability", "attributions", "blames")}
        if "compare" in params:
            outputs["comparisons"] = f"{place}/comparisons.parquet"
        if any(m.plugin.name == "confidence_weighted_accuracy" for m in r.metrics) and len(r.scored_models) > 2:
            plots["metric_study"] = f"{place}/plots/metric_study.csv"
            outputs |= {"metric_study": plots["metric_study"], "correlations": f"{place}/correlations.parquet"}
        kept = frozenset({"metrics", *plots})
        return self._stage("score", "score", "Score everything, with intervals", params, inputs, outputs, r.metrics, kept)

    def _report(self, tables: dict[str, Any], before: list[PlannedStage]) -> PlannedStage:
        r = self.r
        inputs = {k: v for k, v in tables.items() if k != "metrics"}
        params: dict[str, Any] = {
            "title": r.spec.title or r.spec.name,
            "description": r.spec.description,
            "about": {m.ref.label: m.about for m in r.models if m.about},
            "examples": r.spec.report.examples,
            "metrics": [m.as_json() for m in r.metrics],
            "settings": self._settings(),
            "published": None,
            **(self._scoring_judges() if len(r.judges) > 1 else {}),
            **self._splits(self.evaluated),
            **self._about_idk(),
            **(self._about_perturbations() if r.perturbations else {}),
            **self._unscored(),
            **({"tests": self._tests()} if "effects" in tables else {}),
        }
        if r.spec.report.published:
            params["published"] = inputs["published"] = f"registry/data/{r.spec.report.published}/tables"
        everything = [canonical(s.as_json()) for s in before] + [canonical(params)]
        params["spec_sha256"] = hashlib.sha256("".join(sorted(everything)).encode()).hexdigest()
        return self._stage("report", "report", "Report", params, inputs, {"report": f"{_place(r)}/report.html"}, r.metrics)

    def _tests(self) -> dict[str, Any]:
        """How effects of perturbations are tested."""
        return self.r.spec.compare.model_dump(include={"permutations", "correction", "family"})

    def _unscored(self) -> dict[str, Any]:
        """The variants under which the old reference is no yardstick, where there are any."""
        found = [p.label for p in self.r.perturbations if not p.keeps_answer]
        return {"unscored": found} if found else {}

    def _about_perturbations(self) -> dict[str, Any]:
        """What each variant is, and which data sets are known to be uncertain in one modality: the card's subset of that name."""
        found: dict[str, Any] = {"variants": [self._variant(p) for p in self.r.perturbations]}
        where = {d.label: self.r.spec.datasets[d.label.partition("@")[0]].where for d in self.r.datasets}
        chosen = {name: subset for name, subset in where.items() if subset in (*MODALITIES, CLEAN)}
        return found | ({"labelled": chosen} if chosen else {})

    def _about_idk(self) -> dict[str, Any]:
        """What the report tells of uncertainty and training, where the spec has them."""
        spec, found = self.r.spec, dict[str, Any]()
        if spec.taxonomy:
            found["taxonomy"] = {main: {n: c.model_dump() for n, c in below.items()} for main, below in spec.taxonomy.items()}
        if self.r.finetunes:
            found["finetunes"] = {f.ref.label: f.ref.plugin.name for f in self.r.finetunes}
        if spec.inference.confidence != "sequence":
            found["confidence"] = spec.inference.confidence
        if spec.compare.baseline or spec.compare.pairs:
            found["correction"] = spec.compare.correction
        if spec.compare.baseline:
            found["baseline"] = spec.compare.baseline
        return found


def _beneath(models: list[ModelUse]) -> dict[str, Any]:
    """The models under adapters, as inputs by path, where there are any."""
    paths = sorted({path for m in models for path in m.beneath} - {m.source for m in models})
    return {"beneath": {path.split("/", 1)[1]: path for path in paths}} if paths else {}


def _keys(tree: Any) -> set[str]:
    if isinstance(tree, Mapping):
        return set(tree) | _keys(list(tree.values()))
    return set().union(*map(_keys, tree)) if isinstance(tree, list) else set()


def canonical(value: Any) -> str:
    """One text for one value: sorted keys, no NaN, 15 and 15.0 distinct."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _relative(plugin: Plugin, root: Path) -> str:
    """A plugin's file from the root; empty for a plugin of another package, whose version is in the environment."""
    try:
        return plugin.path.relative_to(root).as_posix()
    except ValueError:
        return ""


def _check_outputs(stages: list[PlannedStage], resolved: Resolved) -> None:
    problems, owner = [], dict[str, str]()
    names: dict[str, str] = {}
    for stage in stages:
        if names.setdefault(stage.name.lower(), stage.name) != stage.name or sum(s.name == stage.name for s in stages) > 1:
            problems.append(_clash(resolved, f"two stages would be called '{stage.name}'"))
        for out in stage.outs:
            other = owner.setdefault(out.lower(), stage.name)
            if other != stage.name:
                problems.append(_clash(resolved, f"stages '{other}' and '{stage.name}' would both write {out}"))
    if problems:
        raise SpecError(problems)


def _clash(resolved: Resolved, message: str) -> Problem:
    return Problem(Mark(str(resolved.files[0])), "", message, "rename a dataset or model")


def _ordered(stages: list[PlannedStage], resolved: Resolved) -> list[PlannedStage]:
    """Stages after what they read, otherwise in the order they were made."""
    owner = {out: s.name for s in stages for out in s.outs}
    waiting = {s.name: {owner[d] for d in s.deps if d in owner} for s in stages}
    done: list[PlannedStage] = []
    left = list(stages)
    while left:
        ready = [s for s in left if not waiting[s.name] - {d.name for d in done}]
        if not ready:
            names = ", ".join(s.name for s in left)
            raise SpecError([Problem(Mark(str(resolved.files[0])), "", f"stages wait for each other in a circle: {names}")])
        done += ready
        left = [s for s in left if s not in ready]
    return done
