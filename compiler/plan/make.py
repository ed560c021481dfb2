"""Make the plan of a resolved spec; pure, but for reading the imports of source files.

A stage is minutes of work (a dataset, a model's answers to a dataset under all variants, the scores), as DVC is slow with many
stages. Below a stage, the answer store avoids repeated work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qualm.compiler.plan import answers, scores
from qualm.compiler.plan.demands import group_asked_alike, needs
from qualm.compiler.plan.layout import Layout, card_path, splits, subset, variant, variants, with_card
from qualm.compiler.plan.order import check_outputs, ordered
from qualm.compiler.plan.plan import Plan, PlannedStage, hub_models
from qualm.compiler.plan.sources import Sources
from qualm.compiler.plan.training_prompts import training_prompts
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, Ref, slug
from qualm.compiler.spec.prompts import IN_WORDS_FORMATS
from qualm.compiler.spec.resolved import DatasetUse, DataUse, FinetuneUse, ModelUse, PairSetUse, RecipeUse, Resolved
from qualm.registry import BLIND, CLEAN, DRAWS, PICTURES, REFUSERS, VALIDATION
from qualm.registry.entries import lock
from qualm.registry.entries.card import CARDS
from qualm.registry.plugins import engine_versions
from qualm.registry.plugins.column_names import IN_WORDS
from qualm.registry.plugins.columns import reads_choices
from qualm.registry.plugins.registry import PROMPTS, ROOT


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
    """Yield the planned inference stages: per model and dataset, or grouped if too many."""
    for model in layout.resolved.models:
        groups = group_asked_alike(layout.resolved, model) if layout.coarse else [[d] for d in layout.evaluated]
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
            *blind_variants(layout, model),
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


def blind_variants(layout: Layout, model: ModelUse) -> list[dict[str, Any]]:
    """Return the model's no-image and wrong-image variants; [] if the spec asks for none."""
    ways = [way for way in PICTURES if model.ref.label in layout.resolved.blind.get(way, ())]
    return [{"variant": BLIND[way], "plugin": None, "args": {}, "picture": way} for way in ways]


def _beneath(models: Sequence[ModelUse]) -> dict[str, Any]:
    # A model's own folder is an input already, as `model`.
    paths = sorted({path for m in models for path in m.beneath} - {m.source for m in models})
    return {"beneath": {path.split("/", 1)[1]: path for path in paths}} if paths else {}


def samples(layout: Layout, dataset: DatasetUse) -> PlannedStage:
    """Return the planned stage `data` of a dataset."""
    params: dict[str, Any] = {"dataset": dataset.label, "card": dataset.card.name, "args": dataset.args, "limit": dataset.limit}
    params |= {"adapter": dataset.adapter.name} if dataset.adapter else {"adapter": None, "missing": dataset.card.missing}
    params |= {**dataset.select, **dataset.entry.parameters("data")}
    params |= {"prepare": {"plugin": dataset.prepare.plugin.name, "args": dataset.prepare.args}} if dataset.prepare else {}
    params |= {ANSWERABLE_BY.name: dataset.answerable_by.as_json()} if dataset.answerable_by else {}
    params |= _balance(layout, dataset) if dataset.reviews is None else {}
    params["about"] = {key: getattr(dataset.card, key) for key in ("title", "licence", "citation", "source")}
    inputs = {"source": f"registry/data/{dataset.source}"} if dataset.source else {}
    inputs |= {"ask_answerable": dataset.select["ask_answerable"]} if "ask_answerable" in dataset.select else {}
    outputs = with_card(layout.whole.get(dataset.label, layout.data[dataset.label]))
    used = [
        *([Ref(dataset.label, dataset.adapter, dataset.args)] if dataset.adapter else []),
        *(ref for ref in (dataset.prepare, dataset.answerable_by) if ref),
    ]
    return layout.stage("data", params, inputs, outputs, used, dataset=dataset.label)


def _balance(layout: Layout, dataset: DatasetUse) -> dict[str, Any]:
    """Return {"balance": settings and seed, "splits": if named}; {} without `balance:`."""
    balance = dataset.entry.balance
    return {} if balance is None else {"balance": {**balance.settings(), "seed": layout.resolved.seed}, **splits([dataset])}


def curate(layout: Layout, dataset: DatasetUse) -> PlannedStage:
    """Return the planned stage `curate`, which applies a dataset's reviews and `balance:`."""
    params: dict[str, Any] = {"dataset": dataset.label, **dataset.entry.parameters("curate"), **splits([dataset])}
    params |= {"subsets": dict(dataset.subsets)} if dataset.subsets else {}
    params |= _balance(layout, dataset)
    inputs = {**with_card(layout.whole[dataset.label]), "reviews": dataset.reviews}
    outputs = with_card(layout.data[dataset.label])
    return layout.stage("curate", params, inputs, outputs, dataset=dataset.label)


def pair(layout: Layout, pairs: PairSetUse, recipe: RecipeUse) -> PlannedStage:
    ref = recipe.ref
    params = {**ref.as_json(), "about": recipe.about, **({"limit": dict(recipe.limit)} if recipe.limit else {})}
    inputs = {"datasets": {name: layout.data[name] for name in recipe.datasets}}
    names = {"pairs": pairs.label, "recipe": ref.label}
    return layout.stage("pair", params, inputs, layout.places("pair", ["pairs"], **names), [ref], **names)


def assemble(layout: Layout, pairs: PairSetUse) -> PlannedStage:
    """Return the planned stage that joins all recipes' pairs of a set."""
    params: dict[str, Any] = {
        "dataset": pairs.label,
        "recipes": [recipe.ref.label for recipe in pairs.recipes],
        **pairs.entry.parameters("assemble"),
    }
    inputs: dict[str, Any] = {
        "recipes": {r.ref.label: layout.place("pair", "pairs", pairs=pairs.label, recipe=r.ref.label) for r in pairs.recipes},
        "datasets": {name: layout.data[name] for name in pairs.sources},
    }
    if pairs.reviews is not None:
        inputs["reviews"] = pairs.reviews
        params |= {"unreviewed": pairs.entry.unreviewed, "lone": pairs.entry.lone}
    inputs["cards"] = {name: card_path(layout.data[name]) for name in pairs.sources}
    outputs = {**with_card(layout.data[pairs.label]), **layout.places("assemble", ["shortcuts"], dataset=pairs.label)}
    return layout.stage("assemble", params, inputs, outputs, name=f"data-{slug(pairs.label)}", dataset=pairs.label)


def perturb(layout: Layout, perturbation: Ref) -> PlannedStage:
    """Return the planned stage that stores a perturbation's samples."""
    datasets = layout.perturbed_by(perturbation)
    params: dict[str, Any] = {**variant(perturbation), **splits(datasets)}
    if layout.resolved.validated:
        params["also"] = [VALIDATION]
    inputs = {"datasets": {d.label: layout.data[d.label] for d in datasets}}
    inputs["cards"] = {name: card_path(path) for name, path in inputs["datasets"].items()}
    outputs = {
        "perturbed": layout.perturbed[perturbation.label],
        "cards": {name: card_path(path) for name, path in layout.perturbed[perturbation.label].items()},
    }
    return layout.stage("perturb", params, inputs, outputs, [perturbation], variant=perturbation.label)


Planner = Callable[[Layout, Sequence[PlannedStage]], Iterable[PlannedStage]]
"""Function from the layout and the stages planned so far to the stages of one kind."""


def _single_stage(section: str, plan: Callable[[Layout, Sequence[PlannedStage]], PlannedStage]) -> Planner:
    """Return a planner: [the stage] if models are asked and `section` is set, else []."""
    return lambda at, before: [plan(at, before)] if at.is_answered and getattr(at.resolved, section) else []


PLANNERS: Mapping[str, Planner] = MappingProxyType(
    {
        "data": lambda at, _: (samples(at, d) for d in at.resolved.datasets),
        "curate": lambda at, _: (curate(at, d) for d in at.resolved.datasets if d.label in at.whole),
        "pair": lambda at, _: (pair(at, pairs, recipe) for pairs in at.resolved.pairs for recipe in pairs.recipes),
        "assemble": lambda at, _: (assemble(at, pairs) for pairs in at.resolved.pairs),
        "finetune": lambda at, _: (finetune(at, f) for f in at.resolved.finetunes),
        "perturb": lambda at, _: (perturb(at, p) for p in at.resolved.perturbations if at.is_answered and p.label in at.perturbed),
        "infer": lambda at, _: inferences(at) if at.is_answered else (),
        "judge": _single_stage("judges", lambda at, _: answers.judge(at)),
        "estimate": _single_stage("estimators", lambda at, _: answers.estimate(at)),
        "probe": _single_stage("probes", lambda at, _: answers.probe(at)),
        "calibrate": _single_stage("conformal", lambda at, _: answers.calibrate(at)),
        "abstain": lambda at, _: (
            [answers.abstain(at)] if at.is_answered and (at.resolved.abstentions or set(REFUSERS) & set(at.resolved.blind)) else ()
        ),
        "score": _single_stage("metrics", scores.score),
        "report": _single_stage("metrics", scores.report),
    }
)
"""Kind of stage -> its planner, in an order in which every input is planned before it is read."""


def make_plan(resolved: Resolved, root: Path = ROOT, sources: Sources | None = None) -> Plan:
    """Return the plan of all stages of a spec, ordered so that each can run.

    Raises:
        SpecError: two stages would write one path, or stages wait for each other.
    """
    layout = Layout(resolved, root, sources)
    stages: list[PlannedStage] = []
    # `score` and `report` read all stages before them, so the order of PLANNERS matters.
    for planner in PLANNERS.values():
        stages += planner(layout, stages)
    check_outputs(stages, resolved)
    artifacts = {f.ref.label: layout.place("finetune", "model", model=f.ref.label) for f in resolved.finetunes}
    return Plan(resolved.spec.name, resolved.spec.title, tuple(ordered(stages, resolved)), artifacts, _sources(layout, stages))


def _sources(layout: Layout, stages: Sequence[PlannedStage]) -> tuple[str, ...]:
    """Return the project files on which the plan itself depends, sorted.

    They are specs, cards, prompts, plugins, the code of its stages, and the pins of hub models.
    """
    cards = [layout.root / CARDS / f"{dataset.entry.card}.yaml" for dataset in layout.resolved.datasets]
    plugins = [plugin.path for stage in stages for ref in stage.refs for plugin in ref.plugins]
    # In a checkout of Qualm its own files, even if an installed Qualm compiles.
    ours = (
        layout.code_root / path.relative_to(ROOT)
        for path in (*plugins, Path(engine_versions.__file__).resolve())
        if path.is_relative_to(ROOT)
    )
    pins = [layout.root / lock.FILE] if hub_models(stages) else []
    files = (*layout.resolved.files, *cards, *plugins, *ours, *pins)
    tracked = {below for path in files if (below := layout.project_path(path)) is not None and path.is_file()}
    prompts = {path for stage in stages for path in stage.deps if path.startswith(f"{PROMPTS}/")}
    return tuple(sorted({*tracked, *prompts, *(path for stage in stages for path in stage.code)}))
