"""`qualm ls`: list the plugins that a spec can name, or explain one with an example."""

import difflib
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from qualm.compiler.commands import examples
from qualm.compiler.project.model_sizes import size_of_published
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.entries.published_models import Published, published
from qualm.registry.plugins import foreign_names, registry
from qualm.registry.plugins.declarations import declarations_of
from qualm.registry.plugins.registry import COMMANDS, KINDS, REQUIRED, Plugin, PluginError
from qualm.registry.system.console import Console
from qualm.registry.system.grids import Grid
from qualm.registry.system.tables import folded, plain_table
from qualm.registry.text import print_json

FOOTERS = {"models": say.OWN_MODELS, "datasets": say.OWN_DATA}
"""Kind of plugins -> line below its table."""


def plugin_table(kind: str | None, as_json: bool) -> None:
    """Print the plugins of one kind, with parameters, or of all; ProjectError if unknown."""
    _check_kind(kind)
    kinds = [kind] if kind else list(KINDS)
    listed = [plugin for k in kinds for plugin in registry.every(k)]
    if as_json:
        print_json([_plugin_json(p) for p in listed])
        return
    out = Console()
    width = min(max((len(p.name) for p in listed), default=0), out.width - 20)
    for each in kinds:
        table = plain_table(Text(each, style="bold"))
        table.show_header = False
        table.add_column(width=width, overflow="fold")
        table.add_column(overflow="fold")
        for plugin in (p for p in listed if p.kind == each):
            summary = Text(plugin.summary)
            if kind and plugin.parameters:
                names = ", ".join(p.name for p in plugin.parameters)
                summary.append(say.TAKES_PARAMETERS.format(parameters=names), style="dim")
            table.add_row(plugin.name, summary)
        out.print(table, Text())
    out.print(Text(say.LS_KIND_EXPLAINS.format(kind=kind) if kind else say.LS_EXPLAINS, style="dim"))
    for each in [kind] if kind in FOOTERS else [] if kind else FOOTERS:
        out.print(Text(FOOTERS[each], style="dim"))


def _check_kind(kind: str | None) -> None:
    if kind is not None and kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1, 0.7)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(KINDS)}"
        raise ProjectError(f"no plugin kind '{kind}'; {hint}")


def print_named(name: str, as_json: bool) -> None:
    """Print the plugins called so here or in other tools, else those that mention the name.

    Raises:
        ProjectError: there is none; the message says what to do instead.
    """
    written = foreign_names.find_by_name(name)
    plugins = [registry.get(kind, spec.partition(":")[0]) for kind, spec in written]
    if not plugins and (reason := foreign_names.missing_advice(name)):
        raise ProjectError(f"no plugin is called '{name}': {reason}")
    if not plugins and difflib.get_close_matches(name, KINDS, 1, 0.8):
        _check_kind(name)
    if plugins and not as_json:
        for plugin, (kind, spec) in zip(plugins, written, strict=True):
            if spec not in (name, plugin.name):
                Console().print(Text(say.FOREIGN_NAME.format(name=name, kind=kind, plugin=spec), style="bold"), soft_wrap=True)
            print_plugin(kind, plugin.name, as_json=False)
            Console().print()
        return
    plugins = plugins or [p for kind in KINDS for p in registry.every(kind) if name.lower() in f"{p.name} {p.summary}".lower()]
    if not plugins:
        near = ", ".join(f"{each} ({kind})" for kind, each in foreign_names.nearest(name))
        raise ProjectError(
            f"no plugin and no kind of plugins is called '{name}', and none speaks of it; "
            + (f"did you mean {near}?" if near else f"`qualm ls` lists all plugins; their kinds are: {', '.join(KINDS)}")
        )
    if as_json:
        print_json([_plugin_json(p) for p in plugins])
        return
    table = plain_table(Text(say.PLUGINS_THAT_MENTION.format(name=name)))
    table.show_header = False
    for column in ("name", "kind", "summary"):
        table.add_column(column, overflow="fold")
    for plugin in plugins:
        table.add_row(plugin.name, plugin.kind, plugin.summary)
    out = Console()
    out.print(table, Text())
    out.print(Text(say.LS_NAME_EXPLAINS, style="dim"))


def print_plugin(kind: str, name: str, as_json: bool) -> None:
    _check_kind(kind)
    try:
        plugin = foreign_names.get(kind, name)
    except PluginError as error:
        raise ProjectError(str(error)) from None
    if as_json:
        print_json(_plugin_json(plugin))
        return
    out = Console()
    out.print(Text.assemble((plugin.name, "bold"), f"  ({kind}, {_near(plugin.path)})\n"), soft_wrap=True)
    out.print(Text(folded(plugin.doc, out.width) or say.NO_HELP))
    for title, lines in (("Parameters", _parameters(plugin)), ("Declares", _declarations(plugin))):
        if text := folded("\n".join(lines), out.width - 2):
            _print_block(out, title, text)
    title, lines = (say.ON_COMMAND_LINE, [export_command(plugin)]) if kind in COMMANDS else (say.IN_A_SPEC, list(_in_a_spec(plugin)))
    _print_block(out, title, "\n".join(lines))


def _print_block(out: Console, title: str, text: str) -> None:
    out.print(Text.assemble((f"\n{title}\n", "bold"), textwrap.indent(text, "  ")))


def export_command(plugin: Plugin) -> str:
    """Return an example line `qualm export SPEC OUT --to NAME` with its options' defaults."""
    defaults = ((p.name, p.default) for p in plugin.parameters if isinstance(p.default, str | int | float | bool))
    options = "".join(f" -O {name}={json.dumps(default)}" for name, default in defaults).replace('"', "")
    return f"qualm export SPEC OUT --to {plugin.name.replace('_', '-')}{options}"


def _in_a_spec(plugin: Plugin) -> Iterator[str]:
    written = examples.text(examples.example(plugin))
    yield from written.splitlines()
    named = examples.placeholders(written)
    if named:
        yield ""
    if "my-card" in named:
        yield f"qualm data new my-card --from FOLDER --adapter {plugin.name}"
    yield from (f"{name}: {meaning}" for name, meaning in named.items())


def _parameters(plugin: Plugin) -> list[str]:
    defaults = (("required" if p.default is REQUIRED else f"default {p.default!r}") for p in plugin.parameters)
    return [f"{p.name}: {p.text}  ({default})" for p, default in zip(plugin.parameters, defaults, strict=True)]


def _declarations(plugin: Plugin) -> list[str]:
    def text_of(value: Any) -> str:
        return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    return [f"{name}: {text_of(value)}" for name, value in declarations_of(plugin).items()]


def _near(path: Path) -> str:
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
        "declares": declarations_of(plugin),
    }


def published_table(kind: str | None, name: str | None, as_json: bool) -> None:
    """Print all published models, or those whose name contains `name`; else ProjectError."""
    if kind != "models":
        raise ProjectError("--published is for models: `qualm ls models --published`")
    models = [m for m in published().values() if name is None or name.lower() in m.name.lower()]
    if not models:
        raise ProjectError(f"no published model whose name holds '{name}'; `qualm ls models --published` lists those that are known")
    if as_json:
        print_json([{**m.model_dump(by_alias=True), "memory": _memories(m)} for m in models])
        return
    numbers = ("billion", "bf16", "int8", "4 bit", "cache", "image")
    grid = Grid([("name", "left"), *((column, "right") for column in numbers), ("gives", "left")])
    for m in models:
        sizes = _memories(m)
        cells = [f"{sizes[k]:.3g}" if k in sizes else "" for k in ("bfloat16", "int8", "nf4", "cache_kib")]
        grid.add(m.name, f"{m.parameters.total:.3g}", *cells, str(m.image_tokens or ""), _gives(m))
    out = Console()
    grid.print(out)
    out.print(say.PUBLISHED_MODELS_NOTE)


def _memories(m: Published) -> dict[str, float]:
    """Return {number format: GiB of weights, "cache_kib": KiB per token}; {} if unknown."""
    size = size_of_published(m)
    if size is None:
        return {}
    sizes = {"float32": size.weight_bytes("float32"), "bfloat16": size.weight_bytes("bfloat16")}
    sizes |= {form: size.weight_bytes("bfloat16", form) for form in ("int8", "nf4")}
    return {**{form: count / 2**30 for form, count in sizes.items()}, "cache_kib": size.cache_bytes("bfloat16") / 1024}


def _gives(m: Published) -> str:
    if m.unsupported:
        return say.MODEL_NOT_SUPPORTED.format(why=m.unsupported)
    gives = say.ALL_SIGNALS_BUT.format(signals=", ".join(m.lacks)) if m.lacks else say.ALL_SIGNALS
    return "; ".join([gives, *([say.NEEDS_TEMPLATE] if m.template else []), *([m.note] if m.note else [])])
