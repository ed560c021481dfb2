"""Plan the stages of models: fine-tuning and inference."""

from collections.abc import Iterator, Sequence
from typing import Any

from qualm.compiler.plan.demands import asked_alike, needs
from qualm.compiler.plan.layout import Layout, splits, subset, variants
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.plan.training_prompts import training_prompts
from qualm.compiler.spec.plugin_ref import slug
from qualm.compiler.spec.prompts import IN_WORDS_FORMATS
from qualm.compiler.spec.resolved import DataUse, FinetuneUse, ModelUse
from qualm.registry import BLIND, CLEAN, DRAWS, PICTURES, VALIDATION
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.columns import reads_choices


def finetune(layout: Layout, f: FinetuneUse) -> PlannedStage:
    r, ref = layout.resolved, f.ref
    base_models = list({m.unprompted: m for m in r.models if m.unprompted in f.models}.values())
    inputs: dict[str, Any] = {"datasets": {label: place for label, place in layout.data.items() if label.split("@")[0] in f.datasets}}
    bases = {m.unprompted: m.source for m in base_models if m.source}
    if bases:
        inputs["models"] = bases
    inputs |= _beneath(base_models)
    outputs = layout.places("finetune", ["model", "log"], model=ref.label)
    params: dict[str, Any] = {
        "name": ref.label,
        "plugin": ref.plugin.name,
        "args": ref.args,
        "models": {m.unprompted: {"plugin": m.ref.plugin.name, "args": m.ref.args} for m in base_models},
        **r.spec.inference.parameters("finetune"),
    }
    if prompts := training_prompts(r, f):
        params["prompts"] = prompts
        if any(prompt.get("answer_format") in IN_WORDS_FORMATS for prompt in prompts.values()):
            params[IN_WORDS] = True
    return layout.stage("finetune", params, inputs, outputs, [ref, *(m.ref for m in base_models)], model=ref.label)


def inferences(layout: Layout) -> Iterator[PlannedStage]:
    """Plan inference: a stage per model and dataset, or per group if those are too many."""
    for model in layout.resolved.models:
        groups = asked_alike(layout.resolved, model) if layout.coarse else [[d] for d in layout.evaluated]
        is_joint = layout.coarse and len(groups) == 1
        for datasets in groups:
            name = f"infer-{slug(model.ref.label)}"
            # Datasets of a group are asked alike, so the first stands for all.
            yield _infer(layout, model, datasets, name if is_joint else f"{name}-{slug(datasets[0].label)}")


def _infer(layout: Layout, model: ModelUse, datasets: Sequence[DataUse], name: str) -> PlannedStage:
    label, perturbations = model.ref.label, layout.resolved.perturbations_of(datasets[0])
    inputs: dict[str, Any] = {"datasets": {d.label: layout.data[d.label] for d in datasets}}
    if model.source:
        inputs["model"] = model.source
    inputs |= _beneath([model])
    if images := {
        image: image for e in model.prompt_for(datasets[0]).get("examples", {}).get("written", ()) for image in e.get("images", ())
    }:
        inputs["examples"] = images
    if stage_variants := [p.label for p in perturbations if p.label in layout.perturbed]:
        inputs["perturbed"] = {variant: {d.label: layout.perturbed[variant][d.label] for d in datasets} for variant in stage_variants}
    outputs = {"generations": {d.label: layout.generations[label][d.label] for d in datasets}}
    inside = layout.internals.get(label, {})
    if stored := {d.label: inside[d.label] for d in datasets if d.label in inside}:
        outputs["internals"] = stored
    names = {"model": label, "dataset": ", ".join(d.label for d in datasets)}
    params = {**_inference_parameters(layout, model, datasets[0]), **splits(datasets)}
    made_on_the_way = [p for p in perturbations if p in layout.perturbing]
    return layout.stage("infer", params, inputs, outputs, [model.ref, *made_on_the_way], name=name, **names)


def _inference_parameters(layout: Layout, model: ModelUse, dataset: DataUse) -> dict[str, Any]:
    r, inference = layout.resolved, layout.resolved.spec.inference
    params: dict[str, Any] = {
        "model": model.ref.as_json(),
        "variants": [
            {"variant": CLEAN, "plugin": None, "args": {}},
            *variants(layout, r.perturbations_of(dataset)),
            *blinded(layout, model),
        ],
        "needs": needs(r, model, dataset),
        **inference.parameters("infer"),
        **model.entry.parameters("infer"),
    }
    # Unused decoding parameters are left out: changing them would repeat the stage for the same answers.
    if DRAWS in params["needs"]:
        params |= {"draws": inference.draws, "temperature": inference.temperature, "top_p": inference.top_p}
        params |= {"top_k": inference.top_k} if inference.top_k else {}
    if model.ref.label in r.validated:
        params["also"] = [VALIDATION]
    prompt = model.prompt_for(dataset)
    if prompt:
        params["prompt"] = prompt
    in_words = "option_logits" not in model.gives or prompt.get("answer_format") in IN_WORDS_FORMATS
    if in_words and any(reads_choices(j.plugin) for j in r.judges):
        params[IN_WORDS] = True
    if model.entry.per_category is not None:
        params["subset"] = subset(layout, model)
    return params


def blinded(layout: Layout, model: ModelUse) -> list[dict[str, Any]]:
    """Return the variants that show a model no image, or another sample's."""
    ways = [way for way in PICTURES if model.ref.label in layout.resolved.blind.get(way, ())]
    return [{"variant": BLIND[way], "plugin": None, "args": {}, "picture": way} for way in ways]


def _beneath(models: Sequence[ModelUse]) -> dict[str, Any]:
    # A model's own folder is an input already, as `model`.
    paths = sorted({path for m in models for path in m.beneath} - {m.source for m in models})
    return {"beneath": {path.split("/", 1)[1]: path for path in paths}} if paths else {}
