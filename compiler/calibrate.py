"""`qualm calibrate`: which perturbation of which spec, on which samples, by whom its strength is judged, and where the choice goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from compiler import check, writeback
from compiler.errors import Problem, SpecError, nearest
from compiler.load import load
from compiler.plan import Plan
from compiler.project import Project, ProjectError
from compiler.refs import Ref, located
from compiler.resolved import Resolved
from compiler.serving import own_name, until_stopped
from registry.columns import CONTEXT
from registry.plugins import Plugin, get

if TYPE_CHECKING:
    from runners.calibrating.bench import Asked, Bench
    from runners.calibrating.effects import Goal
    from runners.calibrating.knobs import Knob
    from runners.calibrating.search import Found
    from runners.stage import Stage

OUTPUT = ".qualm/calibrations"
FALLBACK = "max_sequence_probability"


@dataclass(frozen=True)
class Wanted:
    """What the user asked for on the command line."""

    perturbation: str | None = None
    parameter: str | None = None
    model: str | None = None
    dataset: str | None = None
    samples: int = 200
    auto: bool = False
    share: float | None = None
    distance: str | None = None
    range: str | None = None
    scale: str = "auto"
    write: bool = False
    add: bool = False
    output: Path | None = None
    reviewer: str | None = None
    port: int | None = None
    browse: bool = True


@dataclass(frozen=True)
class Entry:
    """One entry of `perturbations:` at one point of its sweep."""

    index: int
    plugin: Plugin
    label: str
    args: Mapping[str, Any]
    given: frozenset[str]
    """Parameters that the spec names."""
    pointed: bool
    """Whether a single point of a sweep was asked for."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What the spec says of those parameters, as its label has them: names, not paths."""

    def name(self, main: str, args: Mapping[str, Any]) -> str:
        """What the variant would be called once `main` and whatever else was turned stand in the spec."""
        shown = {k: v for k, v in args.items() if k in self.given or k == main or v != self.args[k]}
        return check.label(self.plugin.name, {k: self.told.get(k, v) if v == self.args[k] else v for k, v in shown.items()})


def calibrate(project: Project, spec: str | None, wanted: Wanted) -> bool:
    """Search, or serve the page until Ctrl-C. False if a search found nothing.

    Raises:
        ProjectError: the question was wrong, or something is missing; what to do stands in the message.
    """
    from runners.calibrating.votes import VoteError
    from runners.models import ModelError
    from runners.pages import PageError
    from runners.stage import StageError

    path = project.spec_path(spec)
    resolved, plan = project.resolve(spec), project.plan(spec)
    entry = find_entry(path, project.root, resolved, wanted.perturbation)
    own_file = writeback.holds(path, project.root)
    goal = _goal(entry, wanted) if wanted.auto else None
    if wanted.write and own_file != path:
        raise ProjectError(_inherited(own_file))
    try:
        with chdir(project.root), _bench(project, resolved, plan, entry, wanted, goal) as (bench, knobs, stage):
            place = writeback.Place(own_file, entry.index, entry.plugin.name, "")
            if goal is not None:
                return _search(resolved, entry, bench, knobs[0], goal, wanted, place, stage)
            _serve(resolved, bench, knobs, wanted, entry, place, own_file == path)
            return True
    except (StageError, ModelError, PageError, VoteError) as error:
        raise ProjectError(str(error)) from error


def find_entry(path: Path, root: Path, resolved: Resolved, wanted: str | None) -> Entry:
    """The perturbation that is asked for, by the name of its plugin or of a variant, or the only one.

    Raises:
        ProjectError: the spec has none, several, or not that one.
    """
    document = load(path, root)
    problems: list[Problem] = []
    found: list[Entry] = []
    for index, item in enumerate(document.data.get(writeback.SECTION) or []):
        name, given = (item, {}) if isinstance(item, str) else next(iter(item.items()))
        plugin = get("perturbations", name)
        own = {k: v for k, v in (given or {}).items() if k in {p.name for p in plugin.parameters}}
        at = (writeback.SECTION, index) if isinstance(item, str) else (writeback.SECTION, index, name)
        nested = {k: v for k, v in own.items() if isinstance(v, Mapping)}
        for swept, args in check.combinations(plugin.parameters, own, document, at, problems, name):
            told = {k: v for k, v in {**args, **nested, **swept}.items() if k in own}
            label = check.label(name, told)
            found.append(Entry(index, plugin, label, located(plugin, args), frozenset(own), wanted == label != name, told))
    if not found:
        raise ProjectError(f"{resolved.spec.name} has no perturbations to calibrate; they stand under `perturbations:`")
    matching = found if wanted is None else [e for e in found if wanted in (e.label, e.plugin.name)]
    names = sorted({e.plugin.name for e in found}) + sorted({e.label for e in found} - {e.plugin.name for e in found})
    if not matching:
        hint = nearest(str(wanted), names)
        raise ProjectError(f"{resolved.spec.name} has no perturbation '{wanted}'; {hint or 'there are: ' + ', '.join(names)}")
    if len({e.index for e in matching}) > 1:
        several = sorted({e.plugin.name if wanted is None else e.label for e in matching})
        raise ProjectError(f"{resolved.spec.name} has several perturbations; say which with --perturbation: {', '.join(several)}")
    return next((e for e in matching if e.label == wanted), matching[0])


def _knobs(spec: str, entry: Entry, parameter: str | None, auto: bool) -> list[Knob]:
    """The strengths, the one to search first; none of a perturbation that only is or is not, which is then looked at as it is.

    Raises:
        ProjectError: it has no strength, and one is to be searched or is named; or not that one.
    """
    from runners.calibrating.knobs import numeric

    name, knobs = entry.plugin.name, numeric(entry.plugin, entry.args)
    names = [k.name for k in knobs]
    if not knobs and (auto or parameter is not None):
        ways = [p.name for p in entry.plugin.parameters if p.name in ("generator", "prompt", "temperature")]
        told = f"; what it makes depends on {', '.join(f'`{w}:`' for w in ways)} of the spec" if ways else ""
        raise ProjectError(
            f"{name} has no strength to search for: there is no more or less of it{told}. "
            f"Without --auto, `qualm calibrate {spec} -p {name}` shows what it makes, to be voted on"
        )
    if parameter is not None and parameter not in names:
        raise ProjectError(f"{entry.plugin.name} has no numeric parameter '{parameter}'; there are: {', '.join(names)}")
    return sorted(knobs, key=lambda k: k.name != parameter)


def _goal(entry: Entry, wanted: Wanted) -> Goal:
    from runners.calibrating.effects import DISTANCES, distance_goal, share_goal

    if wanted.share is not None and wanted.distance is not None:
        raise ProjectError("give either --share or --distance")
    if wanted.distance is None:
        share = 0.2 if wanted.share is None else wanted.share
        if not 0 < share < 1:
            raise ProjectError(f"--share: expected a share in (0, 1), got {share:g}")
        return share_goal(share)
    metric, _, value = wanted.distance.partition("=")
    if entry.plugin.declares.get("MODALITY") == "text":
        raise ProjectError(f"{entry.plugin.name} edits questions, and --distance is of pictures; use --share")
    try:
        return distance_goal(metric.strip().lower(), float(value))
    except ValueError as error:
        raise ProjectError(f"--distance: {error}; write METRIC=VALUE, METRIC one of {', '.join(DISTANCES)}") from error


def _pair(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise ProjectError(f"--range: expected LOW:HIGH, two numbers, got '{text}'") from None
    if not low < high:
        raise ProjectError(f"--range: expected LOW below HIGH, got '{text}'")
    return low, high


def _inherited(file: Path) -> str:
    return f"the perturbations stand in {file.name}, which this spec extends and others may; calibrate that one, or write them here"


@contextmanager
def _bench(
    project: Project, resolved: Resolved, plan: Plan, entry: Entry, wanted: Wanted, goal: Goal | None
) -> Iterator[tuple[Bench, list[Knob], Stage]]:
    """Samples, perturbation and model, as the benchmark itself has them. Held by one process at a time."""
    from runners.calibrating.bench import Bench, Subject, open_dataset
    from runners.calibrating.live import Workshop
    from runners.stage import Stage, only_writer

    name = resolved.spec.name
    knobs = _knobs(name, entry, wanted.parameter, goal is not None)
    use = _named([d for d in resolved.evaluated], wanted.dataset, "data set", lambda d: d.label, first=True)
    folder = next(s.outputs["dataset"] for s in plan.stages if s.params.get("dataset") == use.label and "dataset" in s.outputs)
    if not (project.root / folder / "samples.parquet").is_file():
        made = next(s.name for s in plan.stages if s.outputs.get("dataset") == folder)
        raise ProjectError(f"the data set '{use.label}' is not made yet; make it: dvc repro --pull specs/{name}/dvc.yaml:{made}")
    params = {"max_new_tokens": resolved.spec.inference.max_new_tokens}
    stage = Stage(f"{name}/strength", name, "strength", "infer", params, {}, {}, resolved.seed, project.settings)
    modality = str(entry.plugin.declares.get("MODALITY"))
    dataset = open_dataset(use.label, Path(folder), use.splits, modality, wanted.samples, resolved.seed)
    asks = entry.plugin.reads[:1] == (CONTEXT,)
    for path in Ref(entry.label, entry.plugin, dict(entry.args)).artifacts if asks else ():
        if not (project.root / path).exists():
            raise ProjectError(f"{entry.label}: {path} is not on this disk; `qualm plan {name}` says how to get it")
    workshop = Workshop(dataset, project.settings, resolved.seed) if asks else None
    main = knobs[0].name if knobs else ""
    subject = Subject(entry.plugin, entry.args, lambda args: entry.name(main, args), workshop)
    with only_writer(stage):
        asked = None
        if wanted.model is not None or (goal is not None and goal.name == "share"):
            asked = _asked(project, resolved, stage, wanted.model)
        yield Bench(dataset, subject, resolved.seed, asked), knobs, stage


def _asked(project: Project, resolved: Resolved, stage: Stage, wanted: str | None) -> Asked:
    from runners.calibrating.bench import Asked

    use = _named(list(resolved.models), wanted, "model", lambda m: m.ref.label)
    for source in [*([use.source] if use.source else []), *use.beneath]:
        if not (project.root / source).exists():
            raise ProjectError(
                f"model '{use.ref.label}': {source} is not on this disk; `qualm run {resolved.spec.name}` makes it or gets it"
            )
    readable = [e for e in resolved.estimators if e.plugin.reads and set(e.plugin.reads) <= {"token_logprobs", "token_entropies"}]
    estimator = readable[0].as_json() if readable else {"label": FALLBACK, "plugin": FALLBACK, "args": {}}
    return Asked(stage, use.ref.as_json(), Path(use.source) if use.source else None, estimator)


def _named(uses: list[Any], wanted: str | None, what: str, label: Any, first: bool = False) -> Any:
    names = [label(u) for u in uses]
    if not uses:
        raise ProjectError(f"the spec has no {what} to calibrate with")
    if wanted is None and (len(uses) == 1 or first):
        return uses[0]
    if wanted is None:
        raise ProjectError(f"the spec has several: say which {what} with --{what.replace(' ', '')}: {', '.join(names)}")
    if wanted not in names:
        raise ProjectError(f"the spec has no {what} '{wanted}'; {nearest(wanted, names) or 'there are: ' + ', '.join(names)}")
    return uses[names.index(wanted)]


def _search(
    resolved: Resolved, entry: Entry, bench: Bench, knob: Knob, goal: Goal, wanted: Wanted, place: writeback.Place, stage: Stage
) -> bool:
    from runners.calibrating import curve
    from runners.calibrating.knobs import written
    from runners.calibrating.search import search

    if wanted.scale not in ("auto", "linear", "log"):
        raise ProjectError(f"--scale: expected auto, linear or log, got '{wanted.scale}'")
    where = bench.range_of(knob, _within(knob, _pair(wanted.range)), wanted.scale)
    found = search(lambda strengths: bench.measure(goal, knob.name, strengths), where, goal.target, shown=goal.shown)
    who = f"{bench.asked.label}'s answers to " if bench.asked is not None else ""
    title = f"{entry.plugin.name}: {knob.name}, {goal.title}, {who}{bench.dataset.name}"
    _print(found, goal, title)
    for path in _files(resolved, entry, bench, knob, goal, found, wanted.output):
        typer.echo(f"curve: {path}")
    if stage.counters:
        typer.echo("engine: " + ", ".join(f"{n:,} {what}" for what, n in stage.counters.items()))
    if found.chosen is None:
        typer.echo(f"no strength: {found.why}")
        return False
    value = found.chosen.strength
    said = f"{written(value)}: {goal.title} {curve.phrase(found.chosen, goal)}"
    typer.echo(f"chosen: {knob.name} {said}" + (f" ({found.why})" if found.why else ""))
    if wanted.write:
        how = f"--share {goal.shown(goal.target):g}" if wanted.distance is None else f"--distance {goal.name}={goal.shown(goal.target):g}"
        comment = f"{said} for {who}{bench.dataset.name}; `qualm calibrate --auto {how}`, seed {resolved.seed}"
        point = entry.args[knob.name] if entry.pointed and knob.name in entry.given else None
        where_to = replace(place, parameter=knob.name, point=point)
        typer.echo(
            f"{writeback.write(where_to, value, 'add' if wanted.add else 'replace', comment)}; next: qualm compile {place.file.stem}"
        )
    return True


def _within(knob: Knob, given: tuple[float, float] | None) -> tuple[float, float] | None:
    if given is not None and (given[0] < knob.low or (given[1] > knob.high and not knob.open_above)):
        most = "any" if knob.open_above else f"{knob.high:g}"
        raise ProjectError(f"--range: {knob.name} is from {knob.low:g} to {most}, got {given[0]:g}:{given[1]:g}")
    return given


def _print(found: Found, goal: Goal, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from runners.calibrating import curve
    from runners.calibrating.knobs import written

    table = Table(title=title, title_justify="left", box=None, header_style="dim")
    for name in ("strength", "value", "95% interval", "n", "left out", ""):
        table.add_column(name, justify="right")
    for row in curve.rows(found, goal):
        interval = f"{row['low']:.3g} to {row['high']:.3g}"
        mark = "chosen" if row["chosen"] else ""
        table.add_row(written(row["strength"]), f"{row['value']:.3g}", interval, str(row["n"]), str(row["left_out"] or ""), mark)
    Console().print(table)


def _files(resolved: Resolved, entry: Entry, bench: Bench, knob: Knob, goal: Goal, found: Found, output: Path | None) -> Iterator[Path]:
    """The curve on disk: CSV and SVG, named by what was asked."""
    from runners.calibrating import curve

    folder = output or Path(OUTPUT) / resolved.spec.name
    folder.mkdir(parents=True, exist_ok=True)
    parts = [entry.plugin.name, knob.name, goal.slug, bench.dataset.name, *([bench.asked.label] if bench.asked else [])]
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", "_".join(parts))
    texts = {"csv": curve.csv_text(found, goal), "svg": curve.svg_text(found, goal, f"{entry.plugin.name}: {knob.name}")}
    for suffix, text in texts.items():
        path = folder / f"{stem}.{suffix}"
        path.write_text(text, encoding="utf-8")
        yield path


def _serve(resolved: Resolved, bench: Bench, knobs: list[Knob], wanted: Wanted, entry: Entry, place: writeback.Place, own: bool) -> None:
    from runners.calibrating.page import serve
    from runners.calibrating.session import Session, WriteError
    from runners.calibrating.votes import Votes

    points = {k: entry.args[k] for k in entry.given} if entry.pointed else {}

    def write(parameter: str, value: float, add: bool, how: str) -> str:
        where = replace(place, parameter=parameter, point=points.get(parameter))
        try:
            done = writeback.write(where, value, "add" if add else "replace", how)
        except (ProjectError, SpecError) as error:
            raise WriteError(str(error)) from error
        if parameter in points and not add:
            points[parameter] = value
        return f"{done}; next: qualm compile {place.file.stem}"

    reviewer = wanted.reviewer or own_name()
    votes = Votes(Path(OUTPUT) / resolved.spec.name / "votes.csv")
    session = Session(bench, knobs, votes, reviewer, write if own else None)
    title = f"{entry.plugin.name} in {resolved.spec.name}"
    until_stopped(
        lambda: serve(session, title, wanted.port, wanted.browse),
        lambda url: f"{reviewer} calibrates {title} at {url}\nCtrl-C here ends it; votes are in {votes.path}",
    )
