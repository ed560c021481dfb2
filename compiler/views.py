"""How the command line shows things: plans, changes, plugins, differences. Rich in a terminal, plain in a pipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from compiler.costs import Cost
from compiler.emit import Changes
from compiler.explain import Forecast
from compiler.foresight import Estimate
from compiler.needs import Need, lines
from compiler.project import ProjectError
from compiler.sizes import of_published
from compiler.tables import plain_table
from registry import plugins
from registry.models import Published, published
from registry.plugins import COMMANDS, KINDS, NESTED, REQUIRED, Plugin, PluginError
from registry.printing import print_json

_SIGNS = {
    "run": ("[bold yellow]+[/]", "will run"),
    "restore": ("[cyan]<[/]", "will be restored from the cache"),
    "perhaps": ("[yellow]?[/]", "runs if its inputs come out different"),
    "blocked": ("[bold red]![/]", "lacks something"),
    "unchanged": ("[dim]=[/]", "is up to date"),
}


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def print_forecasts(spec: str, forecasts: Sequence[Forecast], verbose: bool = False) -> None:
    """`qualm plan`: a line per stage that is not left alone, its reasons below."""
    out = console()
    for forecast in forecasts:
        if forecast.action == "unchanged" and not verbose:
            continue
        sign, meaning = _SIGNS[forecast.action]
        out.print(f"{sign} [bold]{forecast.stage}[/] {meaning}")
        shown = forecast.reasons if verbose else forecast.reasons[:5]
        for reason in shown:
            out.print(f"    {escape(str(reason))}")
        if len(forecast.reasons) > len(shown):
            out.print(f"    and {len(forecast.reasons) - len(shown)} more (-v)")
    counts: Counter[str] = Counter(f.action for f in forecasts)
    words = {"run": "to run", "restore": "to restore", "perhaps": "perhaps to run", "blocked": "blocked", "unchanged": "up to date"}
    summary = ", ".join(f"{counts[a]} {words[a]}" for a in words if counts[a])
    out.print(f"[bold]{spec}[/]: {summary or 'no stages'}")


def print_needs(found: Sequence[Need]) -> None:
    """The end of `qualm plan`: what no stage can make."""
    if found:
        out = console()
        out.print("[bold]What this needs from you[/]")
        for line in lines(found):
            out.print(escape(line))


def print_estimates(found: Sequence[Estimate], verbose: bool = False) -> None:
    """What inference takes, of `qualm plan`."""
    if not found:
        return
    out = console()
    note = "estimates; what is stored is not computed again; -v shows the arithmetic, --gpu a card's time"
    out.print(f"[bold]What inference takes at most[/] ({note})")
    unknown = Counter(e.why for e in found if e.memory is None)
    for e in found:
        if e.memory is None and unknown[e.why] > 1 and not verbose:
            continue
        many = "" if e.samples is None else f", {e.samples:,} questions"
        room = e.why if e.memory is None else f"{e.memory.total / 2**30:.3g} GiB in batches of {e.batch}"
        took = "" if e.seconds is None else f", {_duration(e.seconds)} ({e.by})" + ("" if e.samples else " a question")
        out.print(f"    {e.stage}{many}: {escape(room)}{took}")
        for line in e.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    for why, stages in unknown.items() if not verbose else ():
        if stages > 1:
            out.print(f"    {stages} stages: {escape(why)}")


def print_costs(found: Sequence[Cost], verbose: bool = False) -> None:
    """What servers are asked, of `qualm plan`."""
    if not found:
        return
    out = console()
    out.print("[bold]What servers are asked at most[/] (estimates; what is stored is not asked again; -v shows the arithmetic)")
    for c in found:
        each = "a question" if c.questions is None else f"{c.questions:,} questions"
        money = "no price known (`price` of this server in qualm.toml)" if c.dollars is None else _dollars(c.dollars)
        if c.reads:
            out.print(f"    {c.stage}: nothing, it reads the replies to {c.reads}")
            continue
        load = f"{c.load.requests:,} requests, {c.load.sent:,} tokens sent, {c.load.received:,} received"
        out.print(f"    {c.stage} ({escape(c.server)}), {each}: {load}: {escape(money)}")
        for line in c.arithmetic if verbose else ():
            out.print(f"        {escape(line)}")
    known = [c.dollars for c in found if c.dollars is not None and c.questions is not None and not c.reads]
    if len(known) > 1:
        out.print(f"    together {_dollars(sum(known))}")


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.1 else f"${amount:.2g}"


def _duration(seconds: float) -> str:
    """Two units at most: `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def published_table(kind: str | None, name: str | None, as_json: bool) -> None:
    """`qualm ls models --published`, all of them or those whose name holds `name`."""
    if kind != "models":
        raise ProjectError("--published is for models: `qualm ls models --published`")
    found = [m for m in published().values() if name is None or name.lower() in m.name.lower()]
    if not found:
        raise ProjectError(f"no published model whose name holds '{name}'; `qualm ls models --published` lists those that are known")
    if as_json:
        print_json([{**m.model_dump(by_alias=True), "memory": _memories(m)} for m in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "billion", "bf16", "int8", "4 bit", "cache", "picture", "gives"):
        table.add_column(column, justify="left" if column in ("name", "gives") else "right", overflow="fold")
    for m in found:
        sizes = _memories(m)
        shown = [f"{sizes[k]:.3g}" if k in sizes else "" for k in ("bfloat16", "int8", "nf4", "cache_kib")]
        table.add_row(m.name, f"{m.parameters.total:.3g}", *shown, str(m.image_tokens or ""), _gives(m))
    out = console()
    out.print(table)
    out.print(
        "\nbf16, int8, 4 bit: GiB of weights; cache: KiB a token and answer as bfloat16; picture: tokens of one of 640 x 480.\n"
        "None is verified here: run `qualm doctor model NAME --revision COMMIT` on the one you choose. More in docs/models.md."
    )


def _memories(m: Published) -> dict[str, float]:
    """GiB of the weights by form, KiB of cache a token."""
    size = of_published(m)
    if size is None:
        return {}
    made = {"float32": size.weight_bytes("float32"), "bfloat16": size.weight_bytes("bfloat16")}
    made |= {form: size.weight_bytes("bfloat16", form) for form in ("int8", "nf4")}
    return {**{form: count / 2**30 for form, count in made.items()}, "cache_kib": size.cache_bytes("bfloat16") / 1024}


def _gives(m: Published) -> str:
    if m.unsupported:
        return f"not supported: {m.unsupported}"
    gives = "all signals" if not m.lacks else f"all but {', '.join(m.lacks)}"
    needs = ["a `template`"] if m.template else []
    return "; ".join([gives, *(f"needs {n}" for n in needs), *([m.note] if m.note else [])])


def print_changes(changes: Changes, check: bool) -> None:
    """`qualm compile`: what was written, moved and removed, or what is out of step."""
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
    if check and changes:
        out.print("run `qualm compile`, and commit what it writes")
    elif not changes:
        out.print(f"{changes.kept} files in step, nothing to write")


def plugin_table(kind: str | None, as_json: bool) -> None:
    """`qualm ls [KIND]`: what each plugin is, of one kind with the names of its parameters below."""
    if kind is not None and kind not in KINDS:
        raise ProjectError(f"no plugin kind '{kind}'; there are: {', '.join(KINDS)}")
    kinds = [kind] if kind else list(KINDS)
    found = [plugins.get(k, n) for k in kinds for n in plugins.names(k)]
    if as_json:
        print_json([_plugin_json(p) for p in found])
        return
    out = Console(highlight=False)
    width = max((len(p.name) for p in found), default=0)
    for each in kinds:
        table = plain_table(Text(each, style="bold"))
        table.show_header = False
        table.add_column(min_width=width)
        table.add_column(overflow="fold")
        for plugin in (p for p in found if p.kind == each):
            told = Text(plugin.summary)
            if kind and plugin.parameters:
                told.append("\ntakes: " + ", ".join(p.name for p in plugin.parameters), style="dim")
            table.add_row(plugin.name, told)
        out.print(table, Text())
    out.print(Text(f"`qualm ls {kind or 'KIND'} NAME` explains one" + ("" if kind else "; `qualm ls KIND` names parameters"), style="dim"))


def print_plugin(kind: str, name: str, as_json: bool) -> None:
    """`qualm ls KIND NAME`."""
    try:
        plugin = plugins.get(kind, name)
    except PluginError as error:
        raise ProjectError(str(error)) from None
    if as_json:
        print_json(_plugin_json(plugin))
        return
    out = console()
    out.print(f"[bold]{plugin.name}[/]  ({kind}, {escape(_near(plugin.path))})\n")
    out.print(escape(plugin.doc) or "(no help)")
    if plugin.parameters:
        out.print("\n[bold]Parameters[/]")
        for p in plugin.parameters:
            default = "required" if p.default is REQUIRED else f"default {p.default!r}"
            out.print(f"  {p.name}: {escape(p.text)}  ({escape(default)})")
    for key, value in plugin.declares.items():
        out.print(f"\n[bold]{key}[/] {escape(str(value))}")
    if kind in COMMANDS:
        shown = "".join(f" -O {p.name}=..." for p in plugin.parameters)
        out.print(f"\n[bold]On the command line[/]\n  qualm export SPEC --to {name.replace('_', '-')} OUT" + escape(shown))
        return
    out.print("\n[bold]In a spec[/]")
    needed = ", ".join(f"{p.name}: ..." for p in plugin.parameters if p.default is REQUIRED)
    if kind in NESTED:
        taken = "`prepare:` of a data set" if kind == "preparations" else f"a parameter that takes a plugin of {kind}"
        out.print(f"  as the value of {taken}: " + escape(f"{{{name}: {{{needed}}}}}" if needed else name))
    else:
        out.print(f"  {kind}: " + escape(f"[{name}: {{{needed}}}]" if needed else f"[{name}]"))


def _near(path: Path) -> str:
    """A path as it is typed here."""
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


def _plugin_json(plugin: Plugin) -> dict[str, Any]:
    parameters = [
        {"name": p.name, "type": p.text, "required": p.default is REQUIRED, "default": None if p.default is REQUIRED else p.default}
        for p in plugin.parameters
    ]
    return {
        "kind": plugin.kind,
        "name": plugin.name,
        "module": plugin.module,
        "help": plugin.doc,
        "reads": list(plugin.reads),
        "parameters": parameters,
        "declares": plugin.declares,
    }


def print_diff(found: Mapping[str, Any]) -> None:
    """`qualm diff REV`."""
    out = console()
    out.print(f"[bold]{found['spec']}[/]: {found['revision']} -> working tree")
    for line in found["spec_diff"]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(f"[{style}]{escape(line)}[/]" if style else escape(line))
    for change in found["parameters"]:
        out.print(f"  {change['stage']}: {escape(change['change'])}")
    if found["results"]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("model", "dataset", "metric", "old", "new", "change"):
            table.add_column(column, justify="right" if column in ("old", "new", "change") else "left")
        for row in found["results"]:
            numbers = ["-" if row[k] is None else f"{row[k]:+.4f}" if k == "change" else f"{row[k]:.4f}" for k in ("old", "new", "change")]
            table.add_row(row["model"], row["dataset"], row["metric"], *numbers)
        out.print(table)
    if not (found["spec_diff"] or found["parameters"] or found["results"]):
        out.print("no difference")
