"""How the command line shows things: plans, changes, plugins, differences. Rich in a terminal, plain in a pipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from compiler.emit import Changes
from compiler.explain import Forecast
from compiler.needs import Need, lines
from compiler.project import ProjectError
from registry import plugins
from registry.plugins import KINDS, NESTED, REQUIRED, Plugin, PluginError
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
    """`qualm ls [KIND]`."""
    if kind is not None and kind not in KINDS:
        raise ProjectError(f"no plugin kind '{kind}'; there are: {', '.join(KINDS)}")
    kinds = [kind] if kind else list(KINDS)
    found = [plugins.get(k, n) for k in kinds for n in plugins.names(k)]
    if as_json:
        print_json([_plugin_json(p) for p in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (["kind"] if kind is None else []) + ["name", "parameters", "what it is"]:
        table.add_column(column)
    for plugin in found:
        parameters = ", ".join(p.name for p in plugin.parameters)
        cells = [plugin.name, parameters, escape(plugin.summary)]
        table.add_row(*([plugin.kind] if kind is None else []), *cells)
    console().print(table)


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
    out.print(f"[bold]{plugin.name}[/]  ({kind}, {plugin.path})\n")
    out.print(escape(plugin.doc) or "(no help)")
    if plugin.parameters:
        out.print("\n[bold]Parameters[/]")
        for p in plugin.parameters:
            default = "required" if p.default is REQUIRED else f"default {p.default!r}"
            out.print(f"  {p.name}: {escape(p.text)}  ({escape(default)})")
    for key, value in plugin.declares.items():
        out.print(f"\n[bold]{key}[/] {escape(str(value))}")
    out.print("\n[bold]In a spec[/]")
    needed = ", ".join(f"{p.name}: ..." for p in plugin.parameters if p.default is REQUIRED)
    if kind in NESTED:
        out.print(
            f"  as the value of a parameter that takes a plugin of {kind}: " + escape(f"{{{name}: {{{needed}}}}}" if needed else name)
        )
    else:
        out.print(f"  {kind}: " + escape(f"[{name}: {{{needed}}}]" if needed else f"[{name}]"))


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
