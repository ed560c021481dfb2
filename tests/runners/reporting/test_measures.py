"""One convention for every measure: the report prints a metric in the decimals its interval supports, the terminal in three."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qualm.compiler.results.show import show_scores
from qualm.registry.plugins import registry
from qualm.runners.reporting.load import read_report
from qualm.runners.reporting.sections import leaderboard

TEMPLATES = Path(__file__).resolve().parents[3] / "runners" / "reporting" / "templates"
VALUES = (0.125, 0.9996, 0.0, -0.25, -0.0001, 2.5, 1510.75)


@pytest.fixture
def printed(fabricate: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str, str]]:
    """Metric -> its value in the report, the ends of its interval there, and its line in the terminal; every metric that there is."""
    fabric = fabricate(datasets=("open",), models=("only",), n=20)
    names = registry.names("metrics")
    like = next(row for row in fabric.scores if row["variant"] == "clean" and row["slice"] == "all")
    fabric.scores[:] = [
        {**like, "metric": name, "value": value, "low": value - 0.04, "high": value + 0.04}
        for name, value in ((name, VALUES[i % len(VALUES)]) for i, name in enumerate(names))
    ]
    (table,) = leaderboard.leaderboards(read_report(fabric.stage()), "open")
    ((_, cells),) = table.rows
    show_scores(fabric.scores, Console(width=200))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split() and line.split()[0] in names}
    assert set(lines) == set(names) and len(cells) == len(names)
    order = [a.text for a in read_report(fabric.stage()).main_labels("open")]
    return {name: (cell.value, cell.interval, lines[name]) for name, cell in zip(order, cells, strict=True)}


def test_terminal_and_report_print_the_same_number_of_every_metric(printed: dict[str, tuple[str, str, str]]) -> None:
    for name, (value, interval, line) in printed.items():
        numbers = [n.replace("−", "-") for n in (value, *interval.split(" – "))]
        precise = [float(number) for number in re.findall(r"-?\d+\.\d+", line.replace("–", " "))]
        assert [float(number) for number in numbers] == pytest.approx(precise, abs=0.0051), name
        assert value.replace("−", "-") in {"0.12", "1.00", "0.00", "-0.25", "2.50", "1510.75"}


def test_nothing_is_said_to_be_times_100() -> None:
    for template in TEMPLATES.glob("*.html"):
        assert "imes 100" not in template.read_text(encoding="utf-8"), template.name
