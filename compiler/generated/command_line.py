"""docs/reference/command_line.md: all commands with their help, arguments and options."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from qualm.compiler.commands.main import complete_app
from qualm.registry.plugins.registry import MAX_NUMBER

_HEAD = """\
# The command line

*Written by `make docs-reference` from the commands.*

`qualm --help` lists the commands. `--help` after a command adds details and examples to what stands here. `qualm --version -v` prints the
versions of Qualm, Python and all libraries, and which of them are newer than tested.

**SPEC** is the name of a spec in `specs/`, or a path; by default that of `params.yaml`. In commands with further words (`diff`, `compare`,
`export`, `share`), the first word is the spec if a spec has that name or the word ends in `.yaml`. **`--json`**, where a command has it,
prints JSON.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a stage failed, a check found something, or `--exit-code` found a difference |
| 2 | the command cannot be carried out: a mistake in a spec, a wrong argument, missing results |
| 130 | interrupted (Ctrl-C); finished work is kept |

`qualm --install-completion` installs shell completion of commands, specs, models and other names. Tables fit the terminal; in a pipe
they are 80 columns wide, or as wide as `COLUMNS` says.
"""


COMMON = {"SPEC": "A spec's name or path; by default that of params.yaml.", "--json": "Print JSON."}
"""Arguments and options that the head of the page explains."""


def command_line() -> str:
    return "\n".join([_HEAD, *(_section(name, command) for name, command in commands(typer.main.get_command(complete_app())))])


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below a group with its full name, without the groups themselves."""
    for name, command in group.commands.items():
        words = f"{prefix}{name}"
        if hasattr(command, "commands"):
            yield from commands(command, f"{words} ")
        elif not command.hidden:
            yield words, command


def _section(name: str, command: Any) -> str:
    summary = _plain(command.help).partition("\n\n")[0].strip()
    arguments = [p for p in command.params if not any(o.startswith("-") for o in p.opts)]
    options = [p for p in command.params if p not in arguments and not p.hidden]
    rows = [(p.metavar or p.name.upper(), _meaning(p)) for p in arguments]
    rows += [(", ".join((*p.opts, *p.secondary_opts)), _meaning(p)) for p in options]
    common = [f"`{word}`" for word, meaning in rows if COMMON.get(word) == meaning]
    parts = [f"## `qualm {name}`\n", f"{summary} Takes {' and '.join(common)}.\n" if common else f"{summary}\n"]
    if rows := [(word, meaning) for word, meaning in rows if COMMON.get(word) != meaning]:
        parts.append("\n".join(f"- `{word}`: {meaning}" for word, meaning in rows) + "\n")
    return "\n".join(parts)


def _meaning(parameter: Any) -> str:
    text = parameter.help or ""
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    facts = [] if low is None else [f"from {low:.16g}"] if high is None or high >= MAX_NUMBER else [f"{low:.16g} to {high:.16g}"]
    default = "on" if parameter.default is True else parameter.default
    if default not in (None, "") and default is not False and "[default" not in text:
        facts.append(f"default: {default}")
    facts_text = "; ".join(filter(None, facts))
    return f"{text} [{facts_text}]".lstrip() if facts_text else text


def _plain(text: str) -> str:
    return re.sub(r"\[/?(?:bold|dim|italic)?\]", "", text).replace("\b", "").strip() + "\n"
