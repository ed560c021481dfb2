"""A resolved spec -> the frozen plan of its stages. Pure: reads source files for their imports and nothing else.

Stage shape follows what DVC costs: a stage is minutes of work (a data set, a model's answers to a data set over all
variants, the scores), never one cell of the product. What lies below a stage is kept incremental by the sample store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qualm.compiler.plan import answers, data, models, scores
from qualm.compiler.plan.layout import Layout
from qualm.compiler.plan.order import check_outputs, ordered
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.resolve.resolved import Resolved
from qualm.registry.plugins.rule import ROOT


def make_plan(resolved: Resolved, root: Path = ROOT) -> Plan:
    """The stages that rebuild this spec's results.

    Raises:
        SpecError: two stages would write one path, or stages wait for each other.
    """
    layout = Layout(resolved, root)
    stages = _stages(layout)
    check_outputs(stages, resolved)
    artifacts = {f.ref.label: layout.place("models", f.ref.label) for f in resolved.finetunes}
    return Plan(resolved.spec.name, resolved.spec.title, tuple(ordered(stages, resolved)), artifacts)


def _stages(layout: Layout) -> list[PlannedStage]:
    r = layout.resolved
    stages = [*_made(layout)]
    if not r.models or not layout.evaluated:
        return stages
    stages += (data.perturb(layout, p) for p in r.perturbations if p.label in layout.perturbed)
    stages += models.inferences(layout)
    per_sample = list(_per_sample(layout))
    stages += per_sample
    if r.metrics:
        tables = {key: path for stage in per_sample for key, path in stage.outputs.items()}
        score = scores.score(layout, tables)
        stages.append(score)
        stages.append(scores.report(layout, {**layout.answered, **tables, **score.outputs}, stages))
    return stages


def _made(layout: Layout) -> Iterator[PlannedStage]:
    """Of what is asked and whom: data sets, pair sets, tuned models."""
    r = layout.resolved
    yield from (data.samples(layout, d) for d in r.datasets)
    yield from (data.curate(layout, d) for d in r.datasets if d.label in layout.whole)
    for pairs in r.pairs:
        yield from (data.pair(layout, pairs, recipe) for recipe in pairs.recipes)
        yield data.assemble(layout, pairs)
    yield from (models.finetune(layout, f) for f in r.finetunes)


def _per_sample(layout: Layout) -> Iterator[PlannedStage]:
    """Of what is said of every answer."""
    r = layout.resolved
    if r.judges:
        yield answers.judge(layout)
    if r.estimators:
        yield answers.estimate(layout)
    if r.conformal:
        yield answers.calibrate(layout)
    if r.abstentions:
        yield answers.abstain(layout)
