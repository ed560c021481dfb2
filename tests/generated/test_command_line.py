"""docs/reference/command_line.md: every command in a line."""

from __future__ import annotations

import re

import typer

from qualm.compiler.commands.main import complete_app
from qualm.registry.plugins.registry import ROOT
from qualm.runners.data.maintenance import MERGED_BYTES
from tests.generated_pages import command_line, commands

PAGE = command_line()


def test_every_command_has_its_row() -> None:
    names = [name for name, _ in commands(typer.main.get_command(complete_app()))]
    assert re.findall(r"^- `qualm ([^`]+)`: [A-Z]", PAGE, re.MULTILINE) == names
    assert {"run", "data add", "doctor model", "cache gc"} <= set(names)


def test_a_row() -> None:
    row = "- `qualm strength`: Choose the strength of a perturbation, by eye or by a search.\n"
    assert row in PAGE and "[bold]" not in PAGE
    assert (ROOT / "docs/reference/command_line.md").read_text(encoding="utf-8") == PAGE, "run `make docs-reference`"


def test_the_help_names_the_size_of_merged_files() -> None:
    command = dict(commands(typer.main.get_command(complete_app())))["cache gc"]
    assert MERGED_BYTES == 64 * 1024 * 1024 and "files of 64 MiB" in " ".join(command.help.split())
