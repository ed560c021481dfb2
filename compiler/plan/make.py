"""Make the plan of a resolved spec; pure, but for reading the imports of source files.

A stage is minutes of work (a dataset, a model's answers to a dataset under all variants, the scores), as DVC is slow with many
stages. Below a stage, the answer store avoids repeated work.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from qualm.compiler.plan import answers, data, models, scores
from qualm.compiler.plan.layout import Layout
from qualm.compiler.plan.order import check_outputs, ordered
from qualm.compiler.plan.plan import Plan, PlannedStage, hub_models
from qualm.compiler.plan.sources import Sources
from qualm.compiler.spec.resolved import Resolved
from qualm.registry import REFUSERS
from qualm.registry.entries import lock
from qualm.registry.entries.card import CARDS
from qualm.registry.plugins import engine_versions
from qualm.registry.plugins.registry import PROMPTS, ROOT

Planner = Callable[[Layout, Sequence[PlannedStage]], Iterable[PlannedStage]]
"""Function from the layout and the stages planned so far to the stages of one kind."""


def _single_stage(section: str, plan: Callable[[Layout, Sequence[PlannedStage]], PlannedStage]) -> Planner:
    """Plan the only stage of a kind, if models answer and the spec has this section."""
    return lambda at, before: [plan(at, before)] if at.is_answered and getattr(at.resolved, section) else []


PLANNERS: Mapping[str, Planner] = MappingProxyType(
    {
        "data": lambda at, _: (data.samples(at, d) for d in at.resolved.datasets),
        "curate": lambda at, _: (data.curate(at, d) for d in at.resolved.datasets if d.label in at.whole),
        "pair": lambda at, _: (data.pair(at, pairs, recipe) for pairs in at.resolved.pairs for recipe in pairs.recipes),
        "assemble": lambda at, _: (data.assemble(at, pairs) for pairs in at.resolved.pairs),
        "finetune": lambda at, _: (models.finetune(at, f) for f in at.resolved.finetunes),
        "perturb": lambda at, _: (data.perturb(at, p) for p in at.resolved.perturbations if at.is_answered and p.label in at.perturbed),
        "infer": lambda at, _: models.inferences(at) if at.is_answered else (),
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
    """Return the stages that rebuild this spec's results.

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
    """Return the project files that a plan depends on, as sorted relative paths.

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
    tracked = {path.relative_to(layout.root).as_posix() for path in files if layout.is_of_project(path) and path.is_file()}
    prompts = {path for stage in stages for path in stage.deps if path.startswith(f"{PROMPTS}/")}
    return tuple(sorted({*tracked, *prompts, *(path for stage in stages for path in stage.code)}))
