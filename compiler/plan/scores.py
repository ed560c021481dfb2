"""The last two stages: everything scored, and the report of it."""

import hashlib
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from typing import Any

from qualm.compiler.plan.answers import scoring_judges, settings
from qualm.compiler.plan.layout import Layout, read_by, splits, subsets, variants
from qualm.compiler.plan.plan import PlannedStage, writers
from qualm.compiler.spec.canonical_json import canonical
from qualm.compiler.spec.plugin_ref import artifact_path
from qualm.compiler.spec.resolved import Resolved
from qualm.registry import BLIND, CLEAN, MODALITIES, PICTURES, REFUSERS, abstaining_name
from qualm.registry.parameters import to_mappings
from qualm.registry.plugins.column_names import LABELLED
from qualm.runners.contracts.stages import stage_kind


def score(layout: Layout, before: Sequence[PlannedStage]) -> PlannedStage:
    """Return the planned stage `score`, on answers and the tables of stages `before`."""
    r = layout.resolved
    interval = r.spec.compare.interval
    params: dict[str, Any] = {
        "metrics": [m.as_json() for m in r.metrics],
        "slices": sorted(set(r.spec.slices)),
        **({"macro_averages": sorted(r.spec.macro_averages)} if r.spec.macro_averages else {}),
        "interval": {"bootstrap": interval.bootstrap, "level": interval.level},
        **_of_answers(layout),
        **({"conformal": settings(layout)} if r.conformal else {}),
        **({"calibrators": [c.as_json() for c in r.calibrators]} if r.calibrators else {}),
        **({"lexical": lexical} if (lexical := _lexical(r)) else {}),
    }
    if _compares(r):
        params["compare"] = r.spec.compare.model_dump(exclude={"interval"}) | _tests(layout)
        params["compare"]["pairs"] += [pair for pair in _beside_blind(r) if pair not in params["compare"]["pairs"]]
        if studied := _studied(r):
            params["compare"]["studied"] = studied
    written = ["scores", "metrics", "reliability", "risk_coverage", "set_sizes"]
    if interval.bootstrap:
        params["family"] = r.spec.compare.family
        written += ["rankings", "estimator_comparisons"]
    if r.calibrators:
        written += ["calibrator_comparisons", "recalibrated"]
    # DVC expects the files in `written`, so the stage writes them under the same conditions.
    if r.perturbations and any("test" in m.plugin.declares for m in r.metrics):
        params |= {"tests": _tests(layout), **_about_perturbations(layout)}
        written += ["effects", "sweeps", "urr", "hcc", "modality_scores", "rank_stability", "attributions", "blames"]
        if interval.bootstrap and len({p.plugin.declares.get("MODALITY") for p in r.perturbations}) > 1:
            written.append("modality_comparisons")
    if "compare" in params:
        written.append("comparisons")
    if any(m.plugin.name == "confidence_weighted_accuracy" for m in r.metrics) and len(r.scored_models) > 2:
        written += ["metric_study", "correlations"]
    used = [method for c in r.calibrators for method in c.methods]
    inputs = read_by("score", layout.tables(before))
    if r.spec.judging.labels and any(LABELLED in m.reads for m in r.metrics):
        inputs["labels"] = artifact_path(r.spec.judging.labels)
    return layout.stage("score", params, inputs, layout.places("score", written), [*r.metrics, *used])


def _lexical(resolved: Resolved) -> list[str]:
    """Return the labels of estimators that use NLI `lexical`; with Jaccard they use none."""
    refs = [e.as_json() for e in resolved.estimators]
    default = [e for e in refs if (e["args"].get("nli") or {}).get("plugin") == "lexical"]
    return [e["label"] for e in default if e["args"].get("similarity") != "jaccard"]


def _compares(resolved: Resolved) -> bool:
    """Return whether any models are tested against each other."""
    compare = resolved.spec.compare
    return bool(compare.baseline or compare.pairs or _studied(resolved) or _beside_blind(resolved))


def _studied(resolved: Resolved) -> list[list[str]]:
    """Return [a, b] pairs of models to compare by size, tuning or prompt; maybe [].

    A base and its chat-tuned form, neighbouring sizes of a family, prompts of one model.
    """
    about = {model.ref.label: model.about for model in resolved.models if model.about and resolved.spec.compare.interval.bootstrap}
    tuned = [(name, of["base"]) for name, of in sorted(about.items()) if of.get("base") and of.get("chat") is not False]
    pairs = [[base, name] for name, base in tuned if base in resolved.scored_models]
    families: dict[str, dict[float, list[str]]] = {}
    for name, of in sorted(about.items()):
        if of.get("family") and of.get("billions"):
            families.setdefault(of["family"], {}).setdefault(of["billions"], []).append(name)
    for _, by_size in sorted(families.items()):
        neighbours = pairwise(names for _, names in sorted(by_size.items()))
        pairs += [[small, large] for smaller, larger in neighbours for small, large in product(smaller, larger)]
    if resolved.spec.compare.interval.bootstrap:
        pairs += [list(pair) for labels in _prompted(resolved).values() for pair in combinations(labels, 2)]
    return pairs


def _prompted(resolved: Resolved) -> dict[str, list[str]]:
    """Return {model: labels, one per prompt} of models that are asked with several prompts."""
    by_origin: dict[str, list[str]] = {}
    for model in resolved.models:
        by_origin.setdefault(model.unprompted, []).append(model.ref.label)
    return {origin: labels for origin, labels in by_origin.items() if len(labels) > 1}


def _beside_blind(resolved: Resolved) -> list[list[str]]:
    """Return [baseline, model] pairs to test; the baselines lack the question's image or text.

    Classifiers that refuse by the text or the image alone are paired with every model, a model with another image or none only with
    itself. Pairs whose model is the spec's `compare.baseline` are left out.
    """
    labels = [name for name in resolved.scored_models if name not in resolved.blind_models]
    refusers = [abstaining_name(model, BLIND[way]) for way in REFUSERS for model in resolved.blind.get(way, ())]
    pairs = [[name, label] for name in refusers for label in labels]
    pairs += [[abstaining_name(m, BLIND[way]), m] for way in PICTURES for m in resolved.blind.get(way, ())]
    return [pair for pair in pairs if pair[1] != resolved.spec.compare.baseline]


def report(layout: Layout, before: Sequence[PlannedStage]) -> PlannedStage:
    """Return the planned stage `report`, on the tables of stages `before`."""
    r, (captions, shown_paths) = layout.resolved, _report_tables(before)
    inputs = read_by("report", {**layout.tables(before), **_shortcuts(layout, before), **({"shown": shown_paths} if shown_paths else {})})
    params: dict[str, Any] = {
        "title": r.spec.title or r.spec.name,
        "description": r.spec.description,
        "about": {m.ref.label: m.about for m in r.models if m.about},
        **({"prompts": prompts} if (prompts := _prompted(r)) else {}),
        **r.spec.report.parameters("report"),
        "metrics": [m.as_json() for m in r.metrics],
        "settings": settings(layout),
        "family": r.spec.compare.family,
        "published": None,
        **_of_answers(layout),
        **_about_idk(layout),
        **(_about_perturbations(layout) if r.perturbations else {}),
        **({"calibrators": [c.label for c in r.calibrators]} if r.calibrators else {}),
        **({"tests": _tests(layout)} if "effects" in inputs else {}),
        **({"shown": captions} if shown_paths else {}),
        "made": _method_facts(layout, before),
    }
    if r.spec.report.published:
        params["published"] = inputs["published"] = f"registry/data/{r.spec.report.published}/tables"
    # Over the plan and not the YAML file, so that comments and order of keys do not change a signature.
    everything = [canonical(s.as_json()) for s in before] + [canonical(to_mappings(params))]
    params["spec_sha256"] = hashlib.sha256("".join(sorted(everything)).encode()).hexdigest()
    return layout.stage("report", params, inputs, layout.places("report", ["report"]), [*r.metrics, *layout.perturbing])


def _shortcuts(layout: Layout, before: Sequence[PlannedStage]) -> dict[str, dict[str, str]]:
    """Return {"shortcuts": {dataset: path of its table}} of evaluated datasets; {} if none."""
    answered = {d.label for d in layout.evaluated}
    tables = {s.params["dataset"]: s.outputs["shortcuts"] for s in writers(before, "shortcuts") if s.params["dataset"] in answered}
    return {"shortcuts": tables} if tables else {}


def _report_tables(before: Sequence[PlannedStage]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    captions: dict[str, dict[str, str]] = {}
    files: dict[str, dict[str, str]] = {}
    for stage in before:
        if shows := stage_kind(stage.kind).shows:
            captions[stage.name] = dict(shows)
            files[stage.name] = {key: stage.outputs[key] for key in shows}
    return captions, files


def _method_facts(layout: Layout, before: Sequence[PlannedStage]) -> dict[str, Any]:
    """Return {"interval", "decoding", "models", "data"...}: how the results were made."""
    spec = layout.resolved.spec
    decoding: dict[str, Any] = {}
    models: dict[str, dict[str, Any]] = {}
    prompts: dict[str, str] = {}
    for stage in writers(before, "generations"):
        model = stage.params["model"]
        decoding |= {key: stage.params[key] for key in ("max_new_tokens", "draws", "temperature", "top_p", "top_k") if key in stage.params}
        if "prompt" in stage.params:
            prompts[f"{model['label']}, {', '.join(stage.inputs['datasets'])}"] = canonical(to_mappings(stage.params["prompt"]))
        files = {"files": stage.inputs["model"]} if stage.inputs.get("model") else {}
        models[model["label"]] = {"name": model["label"], "plugin": model["plugin"], "args": model["args"], **files}
    tested = {"compare": spec.compare.model_dump(include={"margin"}, exclude_none=True) | _tests(layout)}
    return {
        "interval": spec.compare.interval.model_dump(include={"bootstrap", "level"}),
        **({"family": spec.compare.family} if spec.compare.interval.bootstrap else {}),
        **(tested if _compares(layout.resolved) else {}),
        "decoding": {"max_new_tokens": spec.inference.max_new_tokens, **decoding},
        **({"prompts": prompts} if prompts else {}),
        "confidence": spec.inference.confidence,
        "models": list(models.values()),
        "data": [_data_facts(stage) for stage in before if stage.params.get("dataset") in {d.label for d in layout.evaluated}],
        "judges": [judge for stage in writers(before, "judgements") for judge in stage.params["judges"]],
        "estimators": [about["label"] for stage in writers(before, "uncertainties") for about in stage.params.get("estimators", ())],
        "versions": {name: version for stage in before for name, version in sorted(stage.engine.items())},
    }


def _data_facts(stage: PlannedStage) -> dict[str, Any]:
    about, read = stage.params.get("about", {}), stage.inputs
    made_of = stage.params.get("card") or ", ".join(stage.params.get("recipes", ())) or stage.kind
    files = {"files": read["source"]} if read.get("source") else {}
    facts = {"name": stage.params["dataset"], "of": made_of, "path": stage.outputs.get("dataset"), **files}
    return facts | {key: about[key] for key in ("licence", "source") if about.get(key)}


def _tests(layout: Layout) -> dict[str, Any]:
    compare = layout.resolved.spec.compare
    return {"correction": compare.applied_correction, "family": compare.family}


def _of_answers(layout: Layout) -> dict[str, Any]:
    """Return the `score` stage's parameters on answers: judges, confidence, splits, subsets."""
    r = layout.resolved
    unscored = [p.label for p in r.perturbations if not p.keeps_answer]
    return {
        **r.spec.parameters("score"),
        **scoring_judges(layout),
        "confidence": r.spec.inference.confidence,
        **splits(layout.evaluated),
        **({"unscored": unscored} if unscored else {}),
        **subsets(layout),
    }


def _about_perturbations(layout: Layout) -> dict[str, Any]:
    """Return {"variants"}, and "labelled" if a dataset has subsets named after modalities.

    "labelled" is {dataset: {subset: its expression}}.
    """
    r = layout.resolved
    facts: dict[str, Any] = {"variants": variants(layout, r.perturbations)}
    named = {d.label: {n: text for n, text in sorted(d.subsets.items()) if n in (*MODALITIES, CLEAN)} for d in r.datasets}
    labelled = {label: subsets for label, subsets in named.items() if subsets}
    return facts | ({"labelled": labelled} if labelled else {})


def _about_idk(layout: Layout) -> dict[str, Any]:
    """Return those of {"taxonomy", "finetunes", "baseline"} that the spec has."""
    r, spec, facts = layout.resolved, layout.resolved.spec, dict[str, Any]()
    if spec.taxonomy:
        facts["taxonomy"] = {main: {n: c.model_dump() for n, c in below.items()} for main, below in spec.taxonomy.items()}
    if r.finetunes:
        facts["finetunes"] = {f.ref.label: f.ref.plugin.name for f in r.finetunes}
    if spec.compare.baseline:
        facts["baseline"] = spec.compare.baseline
    return facts
