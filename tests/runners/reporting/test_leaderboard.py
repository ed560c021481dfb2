"""Who is printed in bold, and what stands in a cell that has no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runners.reporting import leaderboard
from runners.reporting.load import read_results
from runners.reporting.text import Label


def ranks(fabric: Any, rows: dict[str, tuple[float | None, float | None, float | None]], better: bool | None) -> dict[str, str]:
    for row in fabric.scores:
        if row["metric"] == "brier":
            row["value"], row["low"], row["high"] = rows[row["model"]]
    return leaderboard._best(read_results(fabric.stage()), "open", Label("brier", "brier", higher_is_better=better))


@pytest.mark.parametrize(
    ("rows", "better", "expected"),
    [
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, True, {"large": "best"}),
        ({"large": (0.9, 0.75, 0.95), "small": (0.7, 0.6, 0.8)}, True, {"large": "lead"}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, False, {"small": "best"}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.7, 0.6, 0.8)}, None, {}),
        ({"large": (0.9, 0.85, 0.95), "small": (0.9, 0.85, 0.95)}, True, {}),
        ({"large": (0.9, 0.85, 0.95), "small": (None, None, None)}, True, {}),
        ({"large": (0.9, None, None), "small": (0.7, 0.6, 0.8)}, True, {"large": "lead"}),
    ],
    ids=["clear", "overlap", "lower is better", "no direction", "tie", "alone", "no interval"],
)
def test_bold_only_where_it_is_the_best(fabricate: Callable[..., Any], rows: Any, better: bool | None, expected: dict[str, str]) -> None:
    assert ranks(fabricate(datasets=("open",), n=20), rows, better) == expected


def test_an_undefined_value_is_told_with_its_counts(fabricate: Callable[..., Any]) -> None:
    table = leaderboard.leaderboards(read_results(fabricate(n=20).stage()), "open")[0]
    place = [c.title for c in table.columns].index("brier")
    cell = table.rows[0][1][place]
    assert (cell.value, cell.why, cell.title, cell.rank) == ("undefined", "all 20 unscored", "n = 0, unscored 20", "")
