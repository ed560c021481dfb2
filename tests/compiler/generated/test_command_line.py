"""docs/reference/command_line.md: every command, with the options it takes."""

from __future__ import annotations

import re

import typer

from qualm.compiler.commands.main import complete_app
from qualm.compiler.generated.command_line import command_line, commands
from qualm.registry.plugins.registry import ROOT
from qualm.runners.store.maintenance import MERGED_BYTES

PAGE = command_line()


def test_every_command_has_its_section() -> None:
    names = [name for name, _ in commands(typer.main.get_command(complete_app()))]
    assert re.findall(r"^## `qualm ([^`]+)`$", PAGE, re.MULTILINE) == names
    assert {"run", "data add", "doctor model", "cache gc"} <= set(names)


def test_a_section() -> None:
    section = PAGE.partition("## `qualm calibrate`\n")[2].partition("\n## ")[0]
    assert "- `--share`: Target effect: the share of greedy answers that change; by default 0.2. [0.001 to 0.999]\n" in section
    assert section.startswith(
        "\nChoose the strength of a perturbation: by eye on a page, or by a search for a stated effect. Takes `SPEC`.\n"
    )
    assert "[bold]" not in PAGE and "\nExamples" not in PAGE, "those are in --help"


def test_an_option_has_its_range_and_its_default() -> None:
    section = PAGE.partition("## `qualm power`\n")[2].partition("\n## ")[0]
    assert "- `--power`: Chance to find the difference. [0.5 to 0.999; default: 0.8]\n" in section
    assert "- `--questions`: Questions, where no data is built. [from 2]\n" in section
    assert "each is then held to .05 over their number. [from 1; default: 1]\n" in section
    assert " Takes `SPEC` and `--json`.\n" in section and "- `--json`" not in PAGE, "the head of the page explains them"
    dry = PAGE.partition("## `qualm cache gc`\n")[2].partition("- `--dry-run`: ")[2].partition("\n")[0]
    assert dry and "[" not in dry, "off by default"
    assert PAGE.partition("- `--browse, --no-browse`: ")[2].partition("\n")[0].endswith("[default: on]")
    assert (ROOT / "docs/reference/command_line.md").read_text(encoding="utf-8") == PAGE, "run `make docs-reference`"


def test_the_help_names_the_size_of_merged_files() -> None:
    command = dict(commands(typer.main.get_command(complete_app())))["cache gc"]
    assert MERGED_BYTES == 64 * 1024 * 1024 and "files of 64 MiB" in " ".join(command.help.split())
