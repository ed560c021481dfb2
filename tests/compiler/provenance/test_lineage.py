from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from qualm import __version__
from qualm.compiler.provenance import lineage
from tests.support.projects.asked_project import asked_project

MADE: dict[str, Any] = {
    "path": "results/s/report.html",
    "md5": "b732cd6512345678",
    "state": "as made",
    "stage": "s/report",
    "params": {"title": "long " * 30, "limit": 7, "metrics": {"ece": 1}},
    "code": ["runners/stages/report.py"],
    "inputs": [
        {
            "path": "results/s/scores.parquet",
            "md5": "43f",
            "state": "as made",
            "stage": "s/score",
            "params": {"m": {}},
            "code": [],
            "inputs": [],
        },
        {"path": "results/s/scores.parquet", "md5": "43f", "see": True},
    ],
}


def told(terminal: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    out = io.StringIO()
    monkeypatch.setattr(lineage, "Console", lambda **more: Console(file=out, force_terminal=terminal, no_color=True, width=width, **more))
    lineage.print_lineage(MADE)
    return out.getvalue().splitlines()


def test_a_line_in_a_pipe_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.rstrip() for line in told(terminal=False, width=40, monkeypatch=monkeypatch)]
    assert lines[0] == "results/s/report.html  b732cd65  as made"
    assert lines[1].startswith("├── made by s/report, 1 code file, parameters title=long long") and lines[1].endswith("...")
    assert lines[3] == "│   └── made by s/score, 0 code files", "no parameters, no word of them"
    assert lines[4] == "└── results/s/scores.parquet  43f  (see above)"


def test_a_terminal_breaks_lines_and_drops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(terminal=True, width=40, monkeypatch=monkeypatch)
    assert "(see" in lines[-2] + lines[-1] and "above)" in lines[-1]
    assert "..." in "".join(lines), "the end of the parameters is there"


def test_whose_answers_a_table_holds(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project = asked_project(tmp_path / "t")
    monkeypatch.chdir(project.root)
    table = "results/t/generations/base/scenes.parquet"
    node = lineage.trace(project, table)
    (origin,) = node["answers"]
    assert origin["qualm"] == __version__ and origin["parts"] == {"answer": 12, "draw": 24, "p_true": 12}
    out = io.StringIO()
    monkeypatch.setattr(lineage, "Console", lambda **more: Console(file=out, width=300, **more))
    lineage.print_lineage(node)
    torch = origin["libraries"]["torch"]
    assert (
        f"12 answers, 24 draws, 12 signals of version {__version__} with tokenizers" in out.getvalue()
        and f"torch {torch}" in out.getvalue()
    )
    (project.root / table).write_bytes(b"another")
    assert "answers" not in lineage.trace(project, table), "the record is not of this table"
