"""docs/reference/command_line.md: every command, with the options it takes."""

from __future__ import annotations

import re

import typer

from qualm.compiler.commands.main import complete_app
from qualm.compiler.generated.command_line import command_line, commands
from qualm.registry.plugins.rule import ROOT

PAGE = command_line()


def test_every_command_has_its_section() -> None:
    names = [name for name, _ in commands(typer.main.get_command(complete_app()))]
    assert re.findall(r"^## `qualm ([^`]+)`$", PAGE, re.MULTILINE) == names
    assert {"run", "data add", "doctor model", "cache gc"} <= set(names)


def test_a_section() -> None:
    section = PAGE.partition("## `qualm calibrate`\n")[2].partition("\n## ")[0]
    assert "| `--share` | Target effect: the share of greedy answers that change; by default 0.2. [0.001 to 0.999] |" in section
    assert "| `--browse, --no-browse` | " in section
    assert "```\nqualm calibrate SPEC -p blur -m base           # a page, with base's answers\n" in section
    assert "[bold]" not in PAGE


def test_an_option_is_told_with_its_range_and_its_default() -> None:
    section = PAGE.partition("## `qualm power`\n")[2].partition("\n## ")[0]
    assert "| `--power` | Chance to find the difference. [0.5 to 0.999; default: 0.8] |" in section
    assert "| `--questions` | Questions, where no data is built. [from 2] |" in section
    assert "each is then held to .05 over their number. [from 1; default: 1] |" in section
    assert "\nTakes `SPEC` and `--json`.\n" in section and "| `--json` |" not in PAGE, "the head of the page explains them"
    cache = PAGE.partition("## `qualm cache gc`\n")[2].partition("\n## ")[0]
    assert "| `--dry-run` | " in cache and "[" not in cache.partition("| `--dry-run` | ")[2].partition(" |")[0], "off by default"
    assert "[default: on] |" in PAGE.partition("| `--browse, --no-browse` | ")[2].partition("\n")[0]
    assert (ROOT / "docs/reference/command_line.md").read_text(encoding="utf-8") == PAGE, "run `make docs-reference`"
