from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from qualm import __version__
from qualm.compiler.results import lineage
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.dvc_objects import file_md5
from tests.compiler.project.test_rebuilds import Made
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


@pytest.mark.slow
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


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A checkout in which two stages have run, the second on what the first made."""
    found = Made(tmp_path)
    found.told()
    monkeypatch.chdir(tmp_path)
    return found


def traced(made: Made, file: str) -> dict[str, Any]:
    return lineage.trace(SimpleNamespace(root=made.root), file)  # type: ignore[arg-type]


def test_down_to_the_sources(made: Made) -> None:
    md5 = {name: file_md5(made.root / name) for name in ("source.txt", "code.py", "made.txt", "last.txt")}
    code = [{"path": "code.py", "md5": md5["code.py"]}]
    source = {"path": "source.txt", "md5": md5["source.txt"], "state": "present"}
    first = {"path": "made.txt", "md5": md5["made.txt"], "state": "as made", "stage": "s/first"}
    last = {"path": "last.txt", "md5": md5["last.txt"], "state": "as made", "stage": "s/second"}
    told = {"params": {"n": 1}, "code": code}
    assert traced(made, "last.txt") == {**last, **told, "inputs": [{**first, **told, "inputs": [source]}]}


def test_what_was_changed_or_is_gone_since(made: Made) -> None:
    locked = file_md5(made.root / "made.txt")
    (made.root / "made.txt").write_text("by hand")
    (made.root / "source.txt").unlink()
    node = traced(made, "made.txt")
    assert (node["state"], node["md5"]) == ("changed since", locked)
    assert node["inputs"] == [{"path": "source.txt", "md5": None, "state": "missing"}]
    (made.root / "made.txt").unlink()
    assert traced(made, "made.txt")["state"] == "missing"
    md5 = "a0" * 16
    (made.root / "source.txt.dvc").write_text(f"outs:\n- md5: {md5}\n  hash: md5\n  path: source.txt\n")
    assert traced(made, "source.txt") == {
        "path": "source.txt", "md5": None, "state": "missing", "tracked_by": "source.txt.dvc", "tracked_md5": md5,
    }  # fmt: skip


def test_a_file_that_is_read_twice_is_shown_once(made: Made) -> None:
    made.lock["second"]["deps"].append({"path": "source.txt", "md5": file_md5(made.root / "source.txt")})
    made.told()
    first, again = traced(made, "last.txt")["inputs"]
    assert first["inputs"][0]["state"] == "present" and again == {"path": "source.txt", "md5": first["inputs"][0]["md5"], "see": "above"}


def test_what_no_stage_made_and_what_is_elsewhere(made: Made) -> None:
    with pytest.raises(ProjectError, match=r"^code.py: no stage in dvc.lock made it; outputs are, for example: last.txt, made.txt$"):
        traced(made, "code.py")
    with pytest.raises(ProjectError, match=r"^\.\./x: expected a file of this project, which is "):
        traced(made, "../x")
    made.lock["second"]["outs"] = [{"path": f"o{i}", "md5": "a0" * 16} for i in range(6)]
    made.told()
    with pytest.raises(ProjectError, match=r"for example: o1, o2, o3, o4, o5$"):
        traced(made, "code.py")


@pytest.mark.parametrize(("length", "shown"), [(98, "a=" + "x" * 98), (99, "a=" + "x" * 95 + "...")])
def test_parameters_in_a_hundred_characters(length: int, shown: str) -> None:
    assert lineage._brief({"a": "x" * length, "list": [1], "mapping": {}}) == shown
