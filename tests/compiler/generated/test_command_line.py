"""docs/reference/command_line.md: every command, with the options it takes."""

from __future__ import annotations

import re

import typer

from qualm.compiler.commands.main import complete_app
from qualm.compiler.generated.command_line import command_line, commands

PAGE = command_line()


def test_every_command_has_its_section() -> None:
    names = [name for name, _ in commands(typer.main.get_command(complete_app()))]
    assert re.findall(r"^## `qualm ([^`]+)`$", PAGE, re.MULTILINE) == names
    assert {"run", "data add", "doctor model", "cache gc"} <= set(names)


def test_a_section() -> None:
    section = PAGE.partition("## `qualm calibrate`\n")[2].partition("\n## ")[0]
    assert "| `--share` | The effect: this share of greedy answers changes. [default: 0.2] |" in section
    assert "| `--browse, --no-browse` | " in section
    assert "```\nqualm calibrate SPEC -p blur -m base           # a page, with base's answers\n" in section
    assert "[bold]" not in PAGE
