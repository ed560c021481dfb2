"""`qualm strength`: choose a perturbation's strength on samples of a spec, by people or by a search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qualm.compiler.commands import edit_yaml
from qualm.compiler.commands.strength_entry import PerturbationEntry, find_entry, knobs_of
from qualm.compiler.commands.strength_request import OUTPUT, StrengthRequest, goal_of, range_of
from qualm.compiler.plan.emit import how_to_make
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.results.integrity import report_changed
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError, SpecError, nearest
from qualm.compiler.spec.plugin_ref import Ref
from qualm.compiler.spec.resolved import ModelUse, Resolved
from qualm.compiler.viewing.serving import OPENING, login_name, until_stopped
from qualm.registry.parameters import to_lists
from qualm.registry.plugins.column_names import CONTEXT
from qualm.registry.system import atomic

if TYPE_CHECKING:
    from qualm.runners.review.bench import Bench, Respondent
    from qualm.runners.review.effects import Goal
    from qualm.runners.review.knobs import Knob
    from qualm.runners.review.search import SearchOutcome
    from qualm.runners.runtime.stage import Stage


def choose_strength(project: Project, spec: str | None, request: StrengthRequest) -> bool:
    """Find a perturbation's strength by search, or on a page; return False if none was found.

    Returns:
        False if the search finds no strength, otherwise True.
    """
    from qualm.runners.contracts.models import ModelError
    from qualm.runners.review.pages import PageError
    from qualm.runners.review.votes import VoteError
    from qualm.runners.runtime.stage import StageError

    path = project.spec_path(spec)
    resolved = project.resolve(spec)
    plan = project.plan_of(resolved)
    entry = find_entry(path, project.root, resolved, request.perturbation)
    own_file = edit_yaml.perturbations_file(path, project.root)
    goal = goal_of(request, entry) if request.auto else None
    if request.write and own_file != path:
        raise ProjectError(
            f"the perturbations are in {own_file.name}, which this spec extends and others may; set the strengths there, or write them here"
        )
    try:
        with chdir(project.root), open_bench(project, resolved, plan, entry, request, goal) as (bench, knobs, stage):
            place = edit_yaml.EditTarget(own_file, entry.index, entry.plugin.name, "")
            if goal is not None:
                return search_strength(resolved, entry, bench, knobs[0], goal, request, place, stage)
            serve_page(resolved, bench, knobs, request, entry, place, own_file == path)
            return True
    except (StageError, ModelError, PageError, VoteError) as error:
        raise ProjectError(str(error)) from error


def serve_page(
    resolved: Resolved,
    bench: Bench,
    knobs: list[Knob],
    request: StrengthRequest,
    entry: PerturbationEntry,
    place: edit_yaml.EditTarget,
    can_write: bool,
) -> None:
    """Serve the page on which people choose the strength, until Ctrl-C."""
    from qualm.runners.review.strength_page import serve
    from qualm.runners.review.strength_session import StrengthSession, WriteError
    from qualm.runners.review.votes import Votes

    points = {k: entry.args[k] for k in entry.named} if entry.pointed else {}

    def write(parameter: str, value: float, add: bool, how: str) -> str:
        where = replace(place, parameter=parameter, point=points.get(parameter))
        try:
            done = edit_yaml.write(where, value, "add" if add else "replace", how)
        except (ProjectError, SpecError) as error:
            raise WriteError(str(error)) from error
        if parameter in points and not add:
            points[parameter] = value
        return say.WRITTEN_COMPILE_NEXT.format(written=done, spec=place.file.stem)

    reviewer = request.reviewer or login_name()
    votes = Votes(Path(OUTPUT) / resolved.spec.name / "votes.csv")
    session = StrengthSession(bench, knobs, votes, reviewer, write if can_write else None)
    title = f"{entry.plugin.name} in {resolved.spec.name}"
    until_stopped(
        lambda: serve(session, title, request.port),
        lambda url: say.CALIBRATION_PAGE.format(reviewer=reviewer, title=title, url=url, advice=say.PAGE_IS_OPEN, votes=votes.path),
        Path(OPENING) if request.browse else None,
    )


FALLBACK = "max_sequence_probability"
"""Uncertainty that is shown if the spec has no estimator of greedy answers alone."""


@contextmanager
def open_bench(
    project: Project, resolved: Resolved, plan: Plan, entry: PerturbationEntry, request: StrengthRequest, goal: Goal | None
) -> Iterator[tuple[Bench, list[Knob], Stage]]:
    """Yield (bench, adjustable parameters, stage); within, only this process writes answers."""
    from qualm.runners.review.bench import AdjustablePerturbation, Bench, open_dataset
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
        how = how_to_make(name, [maker], project.run_wide.default)
        raise ProjectError(f"the dataset '{use.label}' is not made yet; make it {how}")
    report_changed(project.root, [folder])
    model = None
    if request.model is not None or (goal is not None and goal.name == "share"):
        model = _named(list(resolved.models), request.model, "model", lambda m: m.ref.label)
    stage = Stage(
        f"{name}/strength", name, "strength", "infer", _answering_params(plan, model, use.label), {}, {}, resolved.seed, project.settings
    )
    modality = str(entry.plugin.declares.get("MODALITY"))
    dataset = open_dataset(use.label, Path(folder), use.splits, modality, request.samples, resolved.seed)
    asks = entry.plugin.reads[:1] == (CONTEXT,)
    for path in Ref(entry.label, entry.plugin, dict(entry.args)).artifacts if asks else ():
        if not (project.root / path).exists():
            raise ProjectError(f"{entry.label}: {path} is not on this disk; `qualm plan {name}` says how to get it")
    workshop = Workshop(dataset, project.settings, resolved.seed) if asks else None
    main = knobs[0].name if knobs else ""
    subject = AdjustablePerturbation(entry.plugin, entry.args, lambda args: entry.name(main, args), workshop)
    with only_writer(stage):
        respondent = None if model is None else _respondent(project, resolved, stage, model)
        yield Bench(dataset, subject, resolved.seed, respondent), knobs, stage


def _answering_params(plan: Plan, model: ModelUse | None, dataset: str) -> dict[str, Any]:
    """Return the inference parameters of a model on a dataset; {} without model."""
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
        raise ProjectError(f"the spec has no {what} to find a strength with; add one under `{what.replace(' ', '')}s:`")
    if name is None and (len(uses) == 1 or first):
        return uses[0]
    if name is None:
        raise ProjectError(f"the spec has several {what}s; say which with --{what.replace(' ', '')}: {', '.join(names)}")
    if name not in names:
        raise ProjectError(f"the spec has no {what} '{name}'; {nearest(name, names)}")
    return uses[names.index(name)]


def search_strength(
    resolved: Resolved,
    entry: PerturbationEntry,
    bench: Bench,
    knob: Knob,
    goal: Goal,
    request: StrengthRequest,
    place: edit_yaml.EditTarget,
    stage: Stage,
) -> bool:
    """Search the strength with the target effect and print it; return whether found.

    The curve is saved; with `--write`, the strength goes into the spec.

    Returns:
        False if no strength has the effect.
    """
    from qualm.runners.review import curve
    from qualm.runners.review.knobs import format_strength
    from qualm.runners.review.search import search

    if request.scale not in ("auto", "linear", "log"):
        raise ProjectError(f"--scale: expected auto, linear or log, got '{request.scale}'")
    where = bench.range_of(knob, range_of(request, knob), request.scale)
    outcome = search(lambda strengths: bench.measure(goal, knob.name, strengths), where, goal.target, display=goal.display)
    who = say.ANSWERS_OF_TO.format(model=bench.respondent.label) if bench.respondent is not None else ""
    title = f"{entry.plugin.name}: {knob.name}, {goal.title}, {who}{bench.dataset.name}"
    _print(outcome, goal, title)
    for path in _files(resolved, entry, bench, knob, goal, outcome, request.output):
        typer.echo(say.CURVE_AT.format(file=path))
    if stage.counters:
        typer.echo(say.ENGINE_COUNTS.format(counts=", ".join(f"{n:,} {what}" for what, n in stage.counters.items())))
    if outcome.chosen is None:
        typer.echo(say.NO_STRENGTH.format(why=outcome.why))
        return False
    value = outcome.chosen.strength
    summary = f"{format_strength(value)}: {goal.title} {curve.format_reading(outcome.chosen, goal)}"
    if outcome.why:
        typer.echo(say.CHOSEN_STRENGTH_WITH_REASON.format(parameter=knob.name, summary=summary, why=outcome.why))
    else:
        typer.echo(say.CHOSEN_STRENGTH.format(parameter=knob.name, summary=summary))
    if request.write:
        how = (
            f"--share {goal.display(goal.target):g}"
            if request.distance is None
            else f"--distance {goal.name}={goal.display(goal.target):g}"
        )
        comment = say.CALIBRATION_COMMENT.format(summary=summary, answers=who, dataset=bench.dataset.name, options=how, seed=resolved.seed)
        point = entry.args[knob.name] if entry.pointed and knob.name in entry.named else None
        where_to = replace(place, parameter=knob.name, point=point)
        done = edit_yaml.write(where_to, value, "add" if request.add else "replace", comment)
        typer.echo(say.WRITTEN_COMPILE_NEXT.format(written=done, spec=place.file.stem))
    return True


def _print(outcome: SearchOutcome, goal: Goal, title: str) -> None:
    from rich.text import Text

    from qualm.registry.system.console import Console
    from qualm.registry.system.grids import Grid
    from qualm.runners.review import curve
    from qualm.runners.review.knobs import format_strength

    grid = Grid([(name, "right") for name in ("strength", "value", "95% interval", "n", "left out", "")], Text(title))
    for row in curve.curve_rows(outcome, goal):
        interval = f"{row['low']:.3g} to {row['high']:.3g}"
        mark = "chosen" if row["chosen"] else ""
        grid.add(format_strength(row["strength"]), f"{row['value']:.3g}", interval, str(row["n"]), str(row["left_out"] or ""), mark)
    grid.print(Console())


def _files(
    resolved: Resolved, entry: PerturbationEntry, bench: Bench, knob: Knob, goal: Goal, outcome: SearchOutcome, output: Path | None
) -> Iterator[Path]:
    from qualm.runners.review import curve

    folder = output or Path(OUTPUT) / resolved.spec.name
    parts = [entry.plugin.name, knob.name, goal.slug, bench.dataset.name, *([bench.respondent.label] if bench.respondent else [])]
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", "_".join(parts))
    texts = {"csv": curve.csv_text(outcome, goal), "svg": curve.svg_text(outcome, goal, f"{entry.plugin.name}: {knob.name}")}
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        atomic.write_text(path, text)
        yield path
