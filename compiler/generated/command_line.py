"""docs/reference/command_line.md: all commands, each in a line."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from qualm.compiler.commands.main import complete_app
from qualm.compiler.generated.tables import table

_HEAD = """\
# The command line

*Written by `make docs-reference` from the commands.*

`--help` after a command prints its arguments, options and examples. `qualm --version -v` prints the versions of Qualm, Python and all
libraries, and which of them are newer than tested. `qualm --install-completion` installs shell completion of commands, specs and models.

**SPEC** is the name of a spec in `specs/`, or a path; by default that of `params.yaml`. In commands with further words (`diff`, `compare`,
`export`, `share`), the first word is the spec if a spec has that name or the word ends in `.yaml`. **`--json`**, where a command has it,
prints JSON. Tables fit the terminal; in a pipe they are 80 columns wide, or as wide as `COLUMNS` says.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a stage failed, a check found something, or `--exit-code` found a difference |
| 2 | the command cannot be carried out: a mistake in a spec, a wrong argument, missing results |
| 130 | interrupted (Ctrl-C); finished work is kept |
"""


def command_line() -> str:
    rows = [(f"qualm {name}", _summary(command)) for name, command in commands(typer.main.get_command(complete_app()))]
    return f"{_HEAD}\n{table(('command', 'effect'), rows)}"


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below a group with its full name, without the groups themselves."""
    for name, command in group.commands.items():
        words = f"{prefix}{name}"
        if hasattr(command, "commands"):
            yield from commands(command, f"{words} ")
        elif not command.hidden:
            yield words, command


def _summary(command: Any) -> str:
    """Return the first paragraph of a command's help, without markup."""
    return re.sub(r"\[/?(?:bold|dim|italic)?\]", "", command.help).strip().partition("\n\n")[0]
