"""The stages of models: those that train them, and those in which they answer."""

from collections.abc import Iterator, Sequence
from typing import Any

from qualm.compiler.plan.data import VALIDATION
from qualm.compiler.plan.layout import Layout, splits, variants
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.resolve.resolved import DatasetUse, FinetuneUse, ModelUse, PairSetUse
from qualm.compiler.spec.plugin_ref import slug
from qualm.registry import CLEAN, DRAWS
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.columns import reads_choices, signals

GREEDY_SIGNALS = ("text", "token_entropies", "token_logprobs")
"""One greedy decode gives all three, so needing one is needing all: a new estimator on them costs no inference."""


def finetune(layout: Layout, f: FinetuneUse) -> PlannedStage:
    """A model that is made here."""
    r, ref = layout.resolved, f.ref
    begun = [m for m in r.models if m.ref.label in f.models]
    inputs: dict[str, Any] = {"datasets": {label: place for label, place in layout.data.items() if label.split("@")[0] in f.datasets}}
    bases = {m.ref.label: m.source for m in begun if m.source}
    if bases:
        inputs["models"] = bases
    inputs |= _beneath(begun)
    outputs = layout.places("finetune", ["model", "log"], model=ref.label)
    params = {
        "name": ref.label,
        "plugin": ref.plugin.name,
        "args": ref.args,
        "models": {m.ref.label: {"plugin": m.ref.plugin.name, "args": m.ref.args} for m in begun},
        "max_new_tokens": r.spec.inference.max_new_tokens,
    }
    return layout.stage("finetune", params, inputs, outputs, [ref, *(m.ref for m in begun)], model=ref.label)


def inferences(layout: Layout) -> Iterator[PlannedStage]:
    """Every model's answers: a stage for each data set, or one for all of them where stages would be too many."""
    for model in layout.resolved.models:
        if layout.coarse:
            yield _infer(layout, model, layout.evaluated, f"infer-{slug(model.ref.label)}")
        else:
            for d in layout.evaluated:
                yield _infer(layout, model, [d], f"infer-{slug(model.ref.label)}-{slug(d.label)}")


def _infer(layout: Layout, model: ModelUse, datasets: Sequence[DatasetUse | PairSetUse], name: str) -> PlannedStage:
    label = model.ref.label
    inputs: dict[str, Any] = {"datasets": {d.label: layout.data[d.label] for d in datasets}}
    if model.source:
        inputs["model"] = model.source
    inputs |= _beneath([model])
    if layout.perturbed:
        inputs["perturbed"] = {p: {d.label: folders[d.label] for d in datasets} for p, folders in layout.perturbed.items()}
    outputs = {"generations": {d.label: layout.generations[label][d.label] for d in datasets}}
    names = {"model": label, "dataset": ", ".join(d.label for d in datasets)}
    params = {**_inference_parameters(layout, model), **splits(datasets)}
    return layout.stage("infer", params, inputs, outputs, [model.ref, *layout.perturbing], name=name, **names)


def _inference_parameters(layout: Layout, model: ModelUse) -> dict[str, Any]:
    """What a model is asked for and how, whatever the data set."""
    r, inference = layout.resolved, layout.resolved.spec.inference
    params: dict[str, Any] = {
        "model": model.ref.as_json(),
        "variants": [{"variant": CLEAN, "plugin": None, "args": {}}, *variants(layout)],
        "needs": _needs(layout, model),
        "max_new_tokens": inference.max_new_tokens,
    }
    if DRAWS in params["needs"]:
        params |= {"draws": inference.draws, "temperature": inference.temperature, "top_p": inference.top_p}
    if any(a.options["fit"] == VALIDATION and model.ref.label in a.of for a in r.abstentions):
        params["also"] = [VALIDATION]
    if "option_logits" not in model.gives and any(reads_choices(j.plugin) for j in r.judges):
        params[IN_WORDS] = True
    return params


def _needs(layout: Layout, model: ModelUse) -> list[str]:
    """The signals that estimators, judges and metrics read of a model's answers."""
    r = layout.resolved
    needs = {"option_logits"} | signals(column for e in r.estimators if model.asked_for(e) for column in e.reads)
    if r.judges or needs - {"option_logits"}:
        needs |= set(GREEDY_SIGNALS)
    if r.spec.inference.confidence == "verify":
        needs.add("p_yes")
    return sorted(needs & model.gives)


def _beneath(models: Sequence[ModelUse]) -> dict[str, Any]:
    """The models under adapters, as inputs by path, where there are any."""
    paths = sorted({path for m in models for path in m.beneath} - {m.source for m in models})
    return {"beneath": {path.split("/", 1)[1]: path for path in paths}} if paths else {}
