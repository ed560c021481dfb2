"""Plan the stages that make questions: datasets, reviewed datasets, pair sets, perturbed samples."""

from typing import Any

from qualm.compiler.plan.layout import Layout, card, splits, variant, with_card
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.spec.plugin_ref import ANSWERABLE_BY, Ref, slug
from qualm.compiler.spec.resolved import DatasetUse, PairSetUse, RecipeUse
from qualm.registry import VALIDATION


def samples(layout: Layout, d: DatasetUse) -> PlannedStage:
    """Plan the stage that reads a dataset by its card's adapter."""
    params: dict[str, Any] = {"dataset": d.label, "card": d.card.name, "args": d.args, "limit": d.limit}
    params |= {"adapter": d.adapter.name} if d.adapter else {"adapter": None, "missing": d.card.missing}
    params |= {**d.select, **d.entry.parameters("data")}
    params |= {"prepare": {"plugin": d.prepare.plugin.name, "args": d.prepare.args}} if d.prepare else {}
    params |= {ANSWERABLE_BY.name: d.answerable_by.as_json()} if d.answerable_by else {}
    params |= _balance(layout, d) if d.reviews is None else {}
    params["about"] = {key: getattr(d.card, key) for key in ("title", "licence", "citation", "source")}
    inputs = {"source": f"registry/data/{d.source}"} if d.source else {}
    inputs |= {"ask_answerable": d.select["ask_answerable"]} if "ask_answerable" in d.select else {}
    outputs = with_card(layout.whole.get(d.label, layout.data[d.label]))
    used = [*([Ref(d.label, d.adapter, d.args)] if d.adapter else []), *(ref for ref in (d.prepare, d.answerable_by) if ref)]
    return layout.stage("data", params, inputs, outputs, used, dataset=d.label)


def _balance(layout: Layout, d: DatasetUse) -> dict[str, Any]:
    """Return the parameters that balance the classes of scored samples."""
    balance = d.entry.balance
    return {} if balance is None else {"balance": {**balance.settings(), "seed": layout.resolved.seed}, **splits([d])}


def curate(layout: Layout, d: DatasetUse) -> PlannedStage:
    """Plan the stage that drops questions which reviewers rejected."""
    params: dict[str, Any] = {"dataset": d.label, **d.entry.parameters("curate"), **splits([d])}
    params |= {"subsets": dict(d.subsets)} if d.subsets else {}
    params |= _balance(layout, d)
    inputs = {**with_card(layout.whole[d.label]), "reviews": d.reviews}
    outputs = with_card(layout.data[d.label])
    return layout.stage("curate", params, inputs, outputs, dataset=d.label)


def pair(layout: Layout, pairs: PairSetUse, recipe: RecipeUse) -> PlannedStage:
    ref = recipe.ref
    params = {**ref.as_json(), "about": recipe.about, **({"limit": dict(recipe.limit)} if recipe.limit else {})}
    inputs = {"datasets": {name: layout.data[name] for name in recipe.datasets}}
    names = {"pairs": pairs.label, "recipe": ref.label}
    return layout.stage("pair", params, inputs, layout.places("pair", ["pairs"], **names), [ref], **names)


def assemble(layout: Layout, pairs: PairSetUse) -> PlannedStage:
    """Plan the stage that joins the pairs of all recipes in a set."""
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
    inputs["cards"] = {name: card(layout.data[name]) for name in pairs.sources}
    outputs = {**with_card(layout.data[pairs.label]), **layout.places("assemble", ["shortcuts"], dataset=pairs.label)}
    return layout.stage("assemble", params, inputs, outputs, name=f"data-{slug(pairs.label)}", dataset=pairs.label)


def perturb(layout: Layout, p: Ref) -> PlannedStage:
    """Plan the stage of a perturbation that stores the perturbed samples."""
    datasets = layout.perturbed_by(p)
    params: dict[str, Any] = {**variant(p), **splits(datasets)}
    if layout.resolved.validated:
        params["also"] = [VALIDATION]
    inputs = {"datasets": {d.label: layout.data[d.label] for d in datasets}}
    inputs["cards"] = {name: card(path) for name, path in inputs["datasets"].items()}
    outputs = {"perturbed": layout.perturbed[p.label], "cards": {name: card(path) for name, path in layout.perturbed[p.label].items()}}
    return layout.stage("perturb", params, inputs, outputs, [p], variant=p.label)
