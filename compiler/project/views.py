"""Print plans, changes and differences: formatted in a terminal, plain in a pipe."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from qualm.compiler.plan.emit import FileChanges
from qualm.compiler.project.inference import StageEstimate
from qualm.compiler.project.kept_answers import FAMILIES, KeptAnswers, total
from qualm.compiler.project.needs import Need, format_needs
from qualm.compiler.project.pair_counts import RecipeQuestionLimit
from qualm.compiler.project.prices import Cost
from qualm.compiler.project.rebuilds import Action, Forecast
from qualm.compiler.spec import sentences as say
from qualm.registry import CLEAN
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid
from qualm.runners.runtime.run_times import format_dollars, format_duration
from qualm.runners.runtime.spending import Spent

if TYPE_CHECKING:  # importing it takes libraries that `plan` does without
    from qualm.compiler.project.parallel import ParallelForecast

_SIGNS = {
    "run": ("[bold yellow]+[/]", say.STAGE_WILL_RUN, say.STAGE_WILL_RUN),
    "restore": ("[cyan]<[/]", say.STAGE_WILL_BE_RESTORED, say.STAGE_WILL_BE_RESTORED),
    "perhaps": ("[yellow]?[/]", say.STAGE_MAY_RUN, say.STAGES_MAY_RUN),
    "blocked": ("[bold red]![/]", say.STAGE_LACKS, say.STAGES_LACK),
    "unchanged": ("[dim]=[/]", say.STAGE_UP_TO_DATE, say.STAGES_UP_TO_DATE),
}
"""Sign of an action, and its words for one stage and for several."""
MAX_REASONS = 5
"""Reasons that are shown of each stage without `--verbose`."""


NOTHING_SPENT = Spent()


def console() -> Console:
    return Console(soft_wrap=True)


def print_forecasts(spec: str, forecasts: Sequence[Forecast], verbose: bool = False) -> None:
    """Print what stages will do and why, by equal reasons; unchanged ones only if `verbose`.

    With `verbose` a line per stage with every reason.
    """
    out = console()
    if verbose:
        for forecast in forecasts:
            _print_forecast(forecast.action, [forecast.stage], [str(reason) for reason in forecast.reasons])
    else:
        alike: dict[tuple[Action, tuple[str, ...]], list[str]] = {}
        for forecast in forecasts:
            # What follows from an earlier stage need not be said again.
            own = [str(reason) for reason in forecast.reasons if not reason.follows]
            alike.setdefault((forecast.action, tuple(own)), []).append(forecast.stage)
        for (action, reasons), stages in alike.items():
            if action != "unchanged":
                hidden = len(reasons) - MAX_REASONS
                _print_forecast(action, stages, [*reasons[:MAX_REASONS], *([say.MORE_REASONS.format(n=hidden)] if hidden > 0 else [])])
    counts: Counter[str] = Counter(f.action for f in forecasts)
    summary = ", ".join(f"{counts[action]} {words}" for action, words in say.PLAN_COUNTS.items() if counts[action])
    out.print(say.PLAN_SUMMARY.format(spec=spec, counts=summary or say.NO_STAGES))


def _print_forecast(action: Action, stages: Sequence[str], reasons: Sequence[str]) -> None:
    sign, meaning, of_several = _SIGNS[action]
    if action == "blocked" and not reasons:
        meaning, of_several = say.STAGE_WAITS, say.STAGES_WAIT
    names = ", ".join(f"[bold]{stage}[/]" for stage in stages)
    if len(stages) == 1:
        console().print(f"{sign} {names} {meaning}")
    else:
        console().print(say.SEVERAL_STAGES.format(sign=sign, n=len(stages), action=of_several, stages=names))
    for reason in reasons:
        console().print(f"    {escape(reason)}")


def print_kept(stages: Sequence[KeptAnswers]) -> None:
    """Print how many stored answers are reused: in all, and per stage that computes some."""
    out = console()
    for stage in stages:
        if stage.computed is None:
            out.print(say.STORED_UNKNOWN.format(stage=stage.stage, why=escape("; ".join(stage.why))))
        elif stage.computed or stage.why:
            out.print(f"{stage.stage}: {'; '.join([describe_kept(stage), *map(escape, stage.why)])}")
    counted_stages = [stage for stage in stages if stage.computed is not None]
    if counted_stages:
        out.print(f"[bold]{describe_kept(total(counted_stages))}[/]")


def describe_kept(answers: KeptAnswers) -> str:
    """Return "600 answers kept from version 0.1.0, at most 60 draws to compute"."""
    releases = list(answers.releases)
    origin = say.STORED_FROM_VERSION.format(version=releases[0]) if len(releases) == 1 else ""
    if len(releases) > 1:
        counts = (say.STORED_N_FROM_VERSION.format(n=n, version=release) for release, n in sorted(answers.releases.items()))
        origin = f" ({', '.join(counts)})"
    stored, computed = _families(answers.stored) or say.NO_ANSWERS, _families(answers.computed or {}) or 0
    return (say.STORED_KEPT_AT_MOST if answers.computed else say.STORED_KEPT).format(stored=stored, origin=origin, computed=computed)


def _families(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[family]:,} {family}" for family in FAMILIES if counts.get(family))


def print_needs(missing: Sequence[Need]) -> None:
    """Print what only a person can provide; nothing if nothing is missing."""
    if missing:
        out = console()
        out.print(say.NEEDS_TITLE)
        for line in format_needs(missing):
            out.print(escape(line))


def print_estimates(estimates: Sequence[StageEstimate], verbose: bool = False) -> None:
    """Print memory and time per inference stage; if `verbose` the arithmetic too."""
    if not estimates:
        return
    out = console()
    out.print(say.ESTIMATES_TITLE)
    unknown = Counter(e.why for e in estimates if e.memory is None)
    for e in estimates:
        if e.memory is None and unknown[e.why] > 1 and not verbose:
            continue
        many = "" if e.samples is None else say.ESTIMATE_QUESTIONS.format(n=e.samples)
        room = e.why if e.memory is None else say.ESTIMATE_MEMORY.format(gib=e.memory.total / 2**30, batch=e.batch)
        each = "" if e.samples else say.EACH_QUESTION
        took = "" if e.seconds is None else say.ESTIMATE_TIME.format(duration=format_duration(e.seconds), source=e.by) + each
        inside = say.ESTIMATE_STATES.format(gib=e.stored / 2**30) + each if e.stored else ""
        out.print(f"    {e.stage}{many}: {escape(room)}{inside}{took}")
        for line in e.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    for why, stages in unknown.items() if not verbose else ():
        if stages > 1:
            out.print(say.STAGES_WITHOUT_ESTIMATE.format(n=stages, why=escape(why)))


def print_parallel_run(run: "ParallelForecast", on: str | None) -> None:
    """Print the duration of a parallel run and each stage's workers."""
    out = console()
    where = " ".join(filter(None, (f"--jobs {run.jobs}", f"--on {on}" if on else "")))
    out.print(say.PARALLEL_TITLE.format(options=escape(where)))
    out.print(say.PARALLEL_TIME.format(time=format_duration(run.seconds), one_by_one=format_duration(run.one_by_one)))
    if run.unknown:
        out.print(say.PARALLEL_UNKNOWN.format(stages=", ".join(run.unknown)))
    for s in run.shares:
        takes = ", ".join(f"{n / 2**30:.3g} GiB" if name == "memory" else f"{n:g} {name}" for name, n in s.takes.items())
        many = say.WORKER_BATCHES.format(n=s.batches, size=s.batch) if s.batches else ""
        some = say.NO_WORKER.format(resources=takes)
        if s.workers:
            some = say.WORKER_SHARE.format(workers=say.count(s.workers, "worker"), resources=takes, batches=many)
        out.print(f"    {s.stage}: {some}")


def print_pair_counts(counts: Sequence[RecipeQuestionLimit]) -> None:
    """Print upper bounds on the questions that pair recipes make, per category and split."""
    if not counts:
        return
    out = console()
    out.print(say.PAIRS_TITLE)
    totals: Counter[tuple[str, str]] = Counter()
    by_category: dict[tuple[str, str], dict[str, list[str]]] = {}
    for c in counts:
        for split, n in c.questions.items():
            for category in (c.category, "all"):
                totals[f"{c.pairs} {category}", split] += n
            by_category.setdefault((c.pairs, c.category), {}).setdefault(split, []).append(f"{n:,} {c.recipe}")
    for pairs, category in [*by_category, *((name, "all") for name in dict.fromkeys(c.pairs for c in counts))]:
        parts = []
        for (name, split), n in totals.items():
            if name == f"{pairs} {category}":
                recipes = by_category.get((pairs, category), {}).get(split, [])
                parts.append(f"{split or say.ALL_SPLITS} {n:,}" + (f" ({', '.join(recipes)})" if len(recipes) > 1 else ""))
        out.print(f"    {escape(pairs)}, {escape(category)}: {escape(', '.join(parts))}")


def print_costs(priced: Sequence[Cost], verbose: bool = False, spent: Spent = NOTHING_SPENT, cap: float = 0.0) -> None:
    """Print requests and cost per stage, and the money spent so far.

    Args:
        cap: the most that this project may spend, in dollars; 0 = no limit.
    """
    out = console()
    if not priced:
        _print_spent(out, spent, cap, 0.0)
        return
    out.print(say.COSTS_TITLE)
    for c in priced:
        each = f"{'an' if c.each[0] in 'aeio' else 'a'} {c.each}" if c.questions is None else f"{c.questions:,} {c.each}s"
        name = f"{c.stage}, {escape(c.part)}" if c.part else c.stage
        money = say.NO_PRICE if c.dollars is None else format_dollars(c.dollars)
        if c.reads:
            out.print(say.COST_READS_REPLIES.format(stage=c.stage, other=c.reads))
            continue
        line = say.COST_OF_STAGE.format(
            stage=name,
            server=escape(c.server),
            items=each,
            requests=c.load.requests,
            sent=c.load.sent,
            received=c.load.received,
            cost=escape(money),
        )
        out.print(line)
        for line in c.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    amounts = [c.dollars for c in priced if c.dollars is not None and c.questions is not None and not c.reads]
    if len(amounts) > 1:
        out.print(say.COST_TOGETHER.format(cost=format_dollars(sum(amounts))))
    _print_spent(out, spent, cap, sum(amounts))


def _print_spent(out: Console, spent: Spent, cap: float, ahead: float) -> None:
    if not spent.all and not cap:
        return
    of = say.SPENDING_LIMIT.format(limit=format_dollars(cap)) if cap else ""
    lost = say.SPENDING_RESERVED.format(reserved=format_dollars(spent.open)) if spent.open else ""
    out.print(say.SPENT.format(spent=format_dollars(spent.all), limit=of, reserved=lost))
    if cap and spent.all + ahead > cap:
        out.print(say.MAY_EXCEED_LIMIT)


def print_changes(changes: FileChanges, check: bool, specs: Sequence[str] = ()) -> None:
    """Print what compile changed or would (`check`); `specs` only go into the advised command."""
    out = console()
    for path in changes.written:
        out.print((say.FILE_OUT_OF_STEP if check else say.FILE_WRITTEN).format(path=path))
    for path in changes.removed:
        out.print((say.FILE_STALE if check else say.FILE_REMOVED).format(path=path))
    for old, new in changes.moved:
        out.print((say.FILE_TO_MOVE if check else say.FILE_MOVED).format(old=old, new=new))
    for lock, stages in changes.pruned.items():
        out.print((say.LOCK_HOLDS if check else say.LOCK_DROPPED).format(lock=lock, stages=", ".join(stages)))
    for left in changes.leftovers:
        out.print(say.SPEC_LEFTOVERS.format(spec=left.spec, places=", ".join(left.places)))
    if check and changes:
        out.print(say.COMPILE_AND_COMMIT.format(command=" ".join(["qualm compile", *specs])))
    elif not changes:
        out.print(say.FILES_IN_STEP.format(files=say.count(changes.unchanged, "file")))


def print_diff(changes: Mapping[str, Any]) -> None:
    out = console()
    out.print(say.DIFF_TITLE.format(spec=changes["spec"], revision=changes["revision"]))
    for line in changes["spec_diff"]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(f"[{style}]{escape(line)}[/]" if style else escape(line))
    for change in changes["parameters"]:
        out.print(f"  {change['stage']}: {escape(change['change'])}")
    _print_results(changes["results"], changes["level"])
    if test := changes["test"]:
        out.print(say.DIFF_TEST.format(test=test["name"]))
    for note in changes["notes"]:
        out.print(f"[dim]{escape(note)}[/]")
    if not (changes["spec_diff"] or changes["parameters"] or changes["results"]):
        out.print(say.NO_DIFFERENCE)


def print_experiments(entries: Sequence[Mapping[str, Any]]) -> None:
    out = console()
    if not entries:
        out.print(say.NO_EXPERIMENTS)
    for entry in entries:
        out.print(f"[bold]{escape(entry['name'])}[/]")
        for change in entry["parameters"]:
            out.print(f"  {change['stage']}: {escape(change['change'])}")
        _print_results(entry["results"])


def _print_results(results: Sequence[Mapping[str, Any]], level: float | None = None) -> None:
    from qualm.runners.scoring.families import describe_margin

    columns = ["old", "new", "change"] + ([f"{level:.0%} interval", "p"] if level else [])
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in results:
        groups.setdefault(tuple(row[name] for name in ("model", "dataset", "variant") if row[name] != CLEAN), []).append(row)
    for group, rows in groups.items():
        grid = Grid([("metric", "left"), *((name, "right") for name in columns)], Text(" · ".join(group), style="bold"))
        for row in rows:
            numbers = ["-" if row[k] is None else f"{row[k]:+.4f}" if k == "change" else f"{row[k]:.4f}" for k in ("old", "new", "change")]
            if level:
                numbers.append("-" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}")
                found = describe_margin(row)
                numbers.append("-" if row["p_adjusted"] is None else f"{row['p_adjusted']:.4f}{f' ({found})' if found else ''}")
            style = {"a": "red", "b": "green"}.get(row["better"] or "", "" if row["significant"] else "dim") if level else ""
            grid.add(row["metric"], *numbers, style=style)
        grid.print(Console())
