"""Open the samples and the model for choosing a strength, as the benchmark uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.compiler.commands.strength_entry import PerturbationEntry, knobs_of
from qualm.compiler.commands.strength_request import StrengthRequest
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec.errors import ProjectError, nearest
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.resolved import ModelUse, Resolved
from qualm.registry.plugins.column_names import CONTEXT
from qualm.runners.runtime.parameters import to_lists

if TYPE_CHECKING:
    from qualm.runners.review.bench import Bench, Respondent
    from qualm.runners.review.effects import Goal
    from qualm.runners.review.knobs import Knob
    from qualm.runners.runtime.stage import Stage

FALLBACK = "max_sequence_probability"
"""Uncertainty that is shown if the spec has no estimator of greedy answers alone."""


@contextmanager
def open_bench(
    project: Project, resolved: Resolved, plan: Plan, entry: PerturbationEntry, request: StrengthRequest, goal: Goal | None
) -> Iterator[tuple[Bench, list[Knob], Stage]]:
    """Yield samples with perturbation and model, strengths and stage; for one process."""
    from qualm.runners.review.bench import Bench, Subject, open_dataset
    from qualm.runners.review.live import Workshop
    from qualm.runners.runtime.stage import Stage, only_writer

    name = resolved.spec.name
    knobs = knobs_of(name, entry, request.parameter, goal is not None)
    use = _named(
        sorted(resolved.evaluated, key=lambda d: not resolved.perturbations_of(d)),
        request.dataset,
        "dataset",
        lambda d: d.label,
        first=True,
    )
    folder = next(s.outputs["dataset"] for s in plan.stages if s.params.get("dataset") == use.label and "dataset" in s.outputs)
    if not (project.root / folder / "samples.parquet").is_file():
        maker = next(s.name for s in plan.stages if s.outputs.get("dataset") == folder)
        raise ProjectError(f"the dataset '{use.label}' is not made yet; make it: dvc repro --pull specs/{name}/dvc.yaml:{maker}")
    report_changed(project.root, [folder])
    model = None
    if request.model is not None or (goal is not None and goal.name == "share"):
        model = _named(list(resolved.models), request.model, "model", lambda m: m.ref.label)
    stage = Stage(f"{name}/strength", name, "strength", "infer", _asked_as(plan, model, use.label), {}, {}, resolved.seed, project.settings)
    modality = str(entry.plugin.declares.get("MODALITY"))
    dataset = open_dataset(use.label, Path(folder), use.splits, modality, request.samples, resolved.seed)
    asks = entry.plugin.reads[:1] == (CONTEXT,)
    for path in Ref(entry.label, entry.plugin, dict(entry.args)).artifacts if asks else ():
        if not (project.root / path).exists():
            raise ProjectError(f"{entry.label}: {path} is not on this disk; `qualm plan {name}` says how to get it")
    workshop = Workshop(dataset, project.settings, resolved.seed) if asks else None
    main = knobs[0].name if knobs else ""
    subject = Subject(entry.plugin, entry.args, lambda args: entry.name(main, args), workshop)
    with only_writer(stage):
        respondent = None if model is None else _respondent(project, resolved, stage, model)
        yield Bench(dataset, subject, resolved.seed, respondent), knobs, stage


def _asked_as(plan: Plan, model: ModelUse | None, dataset: str) -> dict[str, Any]:
    """Return the parameters of the stage in which a model answers a dataset: prompt, splits, lengths; none without a model."""
    if model is None:
        return {}
    stages = (s for s in plan.writers("generations") if s.params["model"]["label"] == model.ref.label)
    params: dict[str, Any] = to_lists(next(s for s in stages if dataset in s.inputs["datasets"]).params)
    return params


def _respondent(project: Project, resolved: Resolved, stage: Stage, use: ModelUse) -> Respondent:
    from qualm.runners.review.bench import Respondent

    for source in [*([use.source] if use.source else []), *use.beneath]:
        if not (project.root / source).exists():
            raise ProjectError(
                f"model '{use.ref.label}': {source} is not on this disk; `qualm run {resolved.spec.name}` makes it or gets it"
            )
    readable = [e for e in resolved.estimators if e.plugin.reads and set(e.plugin.reads) <= {"token_logprobs", "token_entropies"}]
    estimator = readable[0].as_json() if readable else {"label": FALLBACK, "plugin": FALLBACK, "args": {}}
    return Respondent(stage, use.ref.as_json(), Path(use.source) if use.source else None, estimator)


def _named(uses: list[Any], name: str | None, what: str, label: Any, first: bool = False) -> Any:
    names = [label(u) for u in uses]
    if not uses:
        raise ProjectError(f"the spec has no {what} to calibrate with; add one under `{what.replace(' ', '')}s:`")
    if name is None and (len(uses) == 1 or first):
        return uses[0]
    if name is None:
        raise ProjectError(f"the spec has several {what}s; say which with --{what.replace(' ', '')}: {', '.join(names)}")
    if name not in names:
        raise ProjectError(f"the spec has no {what} '{name}'; {nearest(name, names)}")
    return uses[names.index(name)]
