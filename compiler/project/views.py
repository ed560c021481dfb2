"""Print plans, changes and differences: formatted in a terminal, plain in a pipe."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.text import Text

from qualm.compiler.plan.emit import FileChanges
from qualm.compiler.project.inference import StageEstimate
from qualm.compiler.project.kept_answers import FAMILIES, KeptAnswers, total
from qualm.compiler.project.needs import Need, lines
from qualm.compiler.project.pair_counts import RecipeQuestionLimit
from qualm.compiler.project.prices import Cost
from qualm.compiler.project.rebuilds import Action, Forecast
from qualm.registry import CLEAN
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid
from qualm.runners.runtime.run_times import dollars, duration
from qualm.runners.runtime.spending import Spent

if TYPE_CHECKING:  # importing it takes libraries that `plan` does without
    from qualm.compiler.project.parallel import ParallelForecast

_SIGNS = {
    "run": ("[bold yellow]+[/]", "will run", "will run"),
    "restore": ("[cyan]<[/]", "will be restored from the cache", "will be restored from the cache"),
    "perhaps": ("[yellow]?[/]", "runs if its inputs change", "run if their inputs change"),
    "blocked": ("[bold red]![/]", "lacks something", "lack something"),
    "unchanged": ("[dim]=[/]", "is up to date", "are up to date"),
}
"""Sign of an action, and its words for one stage and for several."""
MAX_REASONS = 5
"""Reasons that are shown of each stage without `--verbose`."""


NOTHING_SPENT = Spent()


def console() -> Console:
    return Console(soft_wrap=True)


def print_forecasts(spec: str, forecasts: Sequence[Forecast], verbose: bool = False) -> None:
    """Print what stages do and why: those with equal reasons in one line, or with `verbose` a line per stage with every reason."""
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
                _print_forecast(action, stages, [*reasons[:MAX_REASONS], *([f"and {hidden} more (-v)"] if hidden > 0 else [])])
    counts: Counter[str] = Counter(f.action for f in forecasts)
    words = {"run": "to run", "restore": "to restore", "perhaps": "perhaps to run", "blocked": "blocked", "unchanged": "up to date"}
    summary = ", ".join(f"{counts[a]} {words[a]}" for a in words if counts[a])
    out.print(f"[bold]{spec}[/]: {summary or 'no stages'}")


def _print_forecast(action: Action, stages: Sequence[str], reasons: Sequence[str]) -> None:
    sign, meaning, of_several = _SIGNS[action]
    if action == "blocked" and not reasons:
        meaning, of_several = "waits for what is missing", "wait for what is missing"
    names = ", ".join(f"[bold]{stage}[/]" for stage in stages)
    console().print(f"{sign} {names} {meaning}" if len(stages) == 1 else f"{sign} {len(stages)} stages {of_several}: {names}")
    for reason in reasons:
        console().print(f"    {escape(reason)}")


def print_kept(stages: Sequence[KeptAnswers]) -> None:
    """Print how many stored answers inference stages reuse and compute."""
    out = console()
    for stage in stages:
        if stage.computed is None:
            out.print(f"{stage.stage}: stored answers: {escape('; '.join(stage.why))}")
        elif stage.computed or stage.why:
            out.print(f"{stage.stage}: {in_words(stage)}" + "".join(f"; {escape(why)}" for why in stage.why))
    counted_stages = [stage for stage in stages if stage.computed is not None]
    if counted_stages:
        out.print(f"[bold]{in_words(total(counted_stages))}[/]")


def in_words(answers: KeptAnswers) -> str:
    """Format such as `600 answers kept from version 0.1.0, at most 60 draws to compute`."""
    releases = list(answers.releases)
    origin = f" from version {releases[0]}" if len(releases) == 1 else ""
    if len(releases) > 1:
        origin = f" ({', '.join(f'{n:,} from version {release}' for release, n in sorted(answers.releases.items()))})"
    stored = _families(answers.stored) or "0 answers"
    return f"{stored} kept{origin}, {'at most ' if answers.computed else ''}{_families(answers.computed or {}) or 0} to compute"


def _families(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[family]:,} {family}" for family in FAMILIES if counts.get(family))


def print_needs(missing: Sequence[Need]) -> None:
    """Print what only the user can provide."""
    if missing:
        out = console()
        out.print("[bold]What this needs from you[/]")
        for line in lines(missing):
            out.print(escape(line))


def print_estimates(estimates: Sequence[StageEstimate], verbose: bool = False) -> None:
    """Print memory and time of inference stages."""
    if not estimates:
        return
    out = console()
    note = "estimates; what is stored is not computed again; -v shows the arithmetic, --gpu a card's time"
    out.print(f"[bold]What inference takes at most[/] ({note})")
    unknown = Counter(e.why for e in estimates if e.memory is None)
    for e in estimates:
        if e.memory is None and unknown[e.why] > 1 and not verbose:
            continue
        many = "" if e.samples is None else f", {e.samples:,} questions"
        room = e.why if e.memory is None else f"{e.memory.total / 2**30:.3g} GiB in batches of {e.batch}"
        took = "" if e.seconds is None else f", {duration(e.seconds)} ({e.by})" + ("" if e.samples else " a question")
        inside = f", {e.stored / 2**30:.3g} GiB of hidden states" + ("" if e.samples else " a question") if e.stored else ""
        out.print(f"    {e.stage}{many}: {escape(room)}{inside}{took}")
        for line in e.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    for why, stages in unknown.items() if not verbose else ():
        if stages > 1:
            out.print(f"    {stages} stages: {escape(why)}")


def print_parallel_run(run: "ParallelForecast", on: str | None) -> None:
    """Print the duration of a run with parallel stages, and the share of each worker."""
    out = console()
    where = " ".join(filter(None, (f"--jobs {run.jobs}", f"--on {on}" if on else "")))
    out.print(f"[bold]What it takes with {escape(where)}[/] (by the estimates above, and by how long stages took when they last ran here)")
    out.print(f"    {duration(run.seconds)}; one by one, here: {duration(run.one_by_one)}")
    if run.unknown:
        out.print(f"    not counted, since they never ran here: {', '.join(run.unknown)}")
    for s in run.shares:
        takes = ", ".join(f"{n / 2**30:.3g} GiB" if name == "memory" else f"{n:g} {name}" for name, n in s.takes.items())
        many = f", about {s.batches:,} batches of {s.batch} questions each" if s.batches else ""
        some = f"{s.workers} worker{'s' if s.workers > 1 else ''} of {takes}{many}" if s.workers else f"no worker has room for {takes}"
        out.print(f"    {s.stage}: {some}")


def print_pair_counts(counts: Sequence[RecipeQuestionLimit]) -> None:
    """Print the questions that pair recipes make at most, by category and split."""
    if not counts:
        return
    out = console()
    out.print("[bold]Questions that pairs make at most[/] (by the limits of their recipes; two for each pair)")
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
                parts.append(f"{split or 'all splits'} {n:,}" + (f" ({', '.join(recipes)})" if len(recipes) > 1 else ""))
        out.print(f"    {escape(pairs)}, {escape(category)}: {escape(', '.join(parts))}")


def print_costs(priced: Sequence[Cost], verbose: bool = False, spent: Spent = NOTHING_SPENT, cap: float = 0.0) -> None:
    """Print requests to servers and their cost, and what the spec has spent."""
    out = console()
    if not priced:
        _print_spent(out, spent, cap, 0.0)
        return
    out.print("[bold]What servers are asked at most[/] (estimates; what is stored is not asked again; -v shows the arithmetic)")
    for c in priced:
        each = f"{'an' if c.each[0] in 'aeio' else 'a'} {c.each}" if c.questions is None else f"{c.questions:,} {c.each}s"
        name = f"{c.stage}, {escape(c.part)}" if c.part else c.stage
        money = "no price known (`price` of this server in qualm.toml)" if c.dollars is None else dollars(c.dollars)
        if c.reads:
            out.print(f"    {c.stage}: nothing, it reads the replies to {c.reads}")
            continue
        load = f"{c.load.requests:,} requests, {c.load.sent:,} tokens sent, {c.load.received:,} received"
        out.print(f"    {name} ({escape(c.server)}), {each}: {load}: {escape(money)}")
        for line in c.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    amounts = [c.dollars for c in priced if c.dollars is not None and c.questions is not None and not c.reads]
    if len(amounts) > 1:
        out.print(f"    together {dollars(sum(amounts))}")
    _print_spent(out, spent, cap, sum(amounts))


def _print_spent(out: Console, spent: Spent, cap: float, ahead: float) -> None:
    if not spent.all and not cap:
        return
    of = f" of {dollars(cap)} (`max_spend` in qualm.toml)" if cap else ""
    lost = f", {dollars(spent.open)} of it reserved for requests that have not ended" if spent.open else ""
    out.print(f"    {dollars(spent.all)}{of} spent over all runs{lost}")
    if cap and spent.all + ahead > cap:
        out.print("    this may cost more than is left: the run stops there, and goes on once `max_spend` is raised")


def print_changes(changes: FileChanges, check: bool) -> None:
    """Print what `qualm compile` wrote, moved and removed, or found out of date."""
    out = console()
    verb = "out of step" if check else "wrote"
    for path in changes.written:
        out.print(f"{verb}: {path}")
    for path in changes.removed:
        out.print(f"{'stale' if check else 'removed'}: {path}")
    for old, new in changes.moved:
        out.print(f"{'to move' if check else 'moved'}: {old} -> {new}")
    for lock, stages in changes.pruned.items():
        out.print(f"{lock}: {'holds' if check else 'dropped'} entries of stages that are gone: {', '.join(stages)}")
    for left in changes.leftovers:
        out.print(f"left of '{left.spec}', whose spec is gone: {', '.join(left.places)}; `qualm clean {left.spec}` removes it")
    if check and changes:
        out.print("run `qualm compile`, and commit what it writes")
    elif not changes:
        out.print(f"{changes.unchanged} files in step, nothing to write")


def print_diff(changes: Mapping[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{changes['spec']}[/]: {changes['revision']} -> working tree")
    for line in changes["spec_diff"]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(f"[{style}]{escape(line)}[/]" if style else escape(line))
    for change in changes["parameters"]:
        out.print(f"  {change['stage']}: {escape(change['change'])}")
    _print_results(changes["results"], changes["level"])
    if test := changes["test"]:
        text = f"p: {test['name']} test on the questions that both sides share, corrected over the changes shown; dim: statistically tied"
        out.print(f"[dim]{text}[/]")
    for note in changes["notes"]:
        out.print(f"[dim]{escape(note)}[/]")
    if not (changes["spec_diff"] or changes["parameters"] or changes["results"]):
        out.print("no difference")


def print_experiments(entries: Sequence[Mapping[str, Any]]) -> None:
    out = console()
    if not entries:
        out.print("no experiments start from this commit; `dvc exp run -S ... --name NAME` makes one (docs/how-to/experiments.md)")
    for entry in entries:
        out.print(f"[bold]{escape(entry['name'])}[/]")
        for change in entry["parameters"]:
            out.print(f"  {change['stage']}: {escape(change['change'])}")
        _print_results(entry["results"])


def _print_results(results: Sequence[Mapping[str, Any]], level: float | None = None) -> None:
    from qualm.runners.scoring.families import within_margin

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
                found = within_margin(row)
                numbers.append("-" if row["p_adjusted"] is None else f"{row['p_adjusted']:.4f}{f' ({found})' if found else ''}")
            style = {"a": "red", "b": "green"}.get(row["better"] or "", "" if row["significant"] else "dim") if level else ""
            grid.add(row["metric"], *numbers, style=style)
        grid.print(Console())
