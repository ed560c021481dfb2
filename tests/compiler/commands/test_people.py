"""`qualm verify`, `strength` and `judges` as they are typed: what reaches the functions behind them, and the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from qualm.compiler.commands import strength, verify
from qualm.compiler.commands.main import app
from qualm.compiler.commands.strength_request import StrengthRequest
from qualm.compiler.commands.verify import ReviewRequest
from qualm.compiler.results import judges

run = CliRunner()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "params.yaml").write_text("default: s\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was called with what, after the project."""
    made: list[tuple[Any, ...]] = []

    def put_down(name: str, back: Any) -> Any:
        def call(project: Any, *arguments: Any) -> Any:
            made.append((name, *arguments))
            return back

        return call

    monkeypatch.setattr(verify, "verify", put_down("verify", None))
    monkeypatch.setattr(verify, "merge", put_down("merge", "2 decisions imported"))
    monkeypatch.setattr(strength, "choose_strength", put_down("strength", True))
    monkeypatch.setattr(judges, "measure_judges", put_down("measure", {"rules": {"n": 3}}))
    monkeypatch.setattr(judges, "show", lambda agreement: made.append(("show", agreement)))
    return made


def typed(*arguments: str, code: int = 0) -> str:
    done = run.invoke(app, list(arguments), env={"COLUMNS": "160"})
    assert done.exit_code == code, done.output
    return done.output


def test_verify(calls: list[tuple[Any, ...]]) -> None:
    typed("verify")
    typed(
        "verify", "s", "set", "-r", "ann", "--page", "--sample", "1", "--category", "epistemic", "--skipped", "--port", "1", "--no-browse"
    )
    assert calls == [
        ("verify", None, ReviewRequest(None, None, None, None, False, False, None, True)),
        ("verify", "s", ReviewRequest("set", "ann", "epistemic", 1, True, True, 1, False)),
    ]


def test_verify_merges_and_does_nothing_else(calls: list[tuple[Any, ...]]) -> None:
    assert typed("verify", "s", "set", "--merge", "a.csv", "--merge", "b.csv") == "2 decisions imported\n"
    assert calls == [("merge", "s", "set", [Path("a.csv"), Path("b.csv")])]


def test_strength(calls: list[tuple[Any, ...]]) -> None:
    typed("strength")
    assert calls == [("strength", None, StrengthRequest())]
    calls.clear()
    typed(
        "strength", "s", "-p", "blur", "--parameter", "radius", "-m", "base", "-d", "scenes", "-n", "1", "--auto", "--share", "0.1",
        "--distance", "psnr=2", "--range", "1:2", "--scale", "log", "--write", "--add", "-o", "out", "-r", "ann", "--port", "65535",
        "--no-browse",
    )  # fmt: skip
    request = StrengthRequest(
        "blur", "radius", "base", "scenes", 1, True, 0.1, "psnr=2", "1:2", "log", True, True, Path("out").absolute(), "ann", 65535, False
    )
    assert calls == [("strength", "s", request)]


def test_a_search_that_finds_nothing_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strength, "choose_strength", lambda *_: False)
    typed("strength", code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "--sample", "0"), ("verify", "--port", "0"), ("verify", "--port", "65536"), ("strength", "-n", "0"),
        ("strength", "--port", "0"), ("strength", "--port", "65536"),
    ],
)  # fmt: skip
def test_numbers_out_of_bounds(calls: list[tuple[Any, ...]], arguments: tuple[str, ...]) -> None:
    typed(*arguments, code=2)
    assert calls == []


def test_judges(calls: list[tuple[Any, ...]]) -> None:
    assert json.loads(typed("judges", "s", "--labels", "l.csv", "--json")) == {"rules": {"n": 3}}
    assert typed("judges") == ""
    assert calls == [("measure", "s", Path("l.csv")), ("measure", None, None), ("show", {"rules": {"n": 3}})]


def test_outside_a_project(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("bare"))
    for command in ("verify", "strength", "judges"):
        assert run.invoke(app, [command]).exit_code != 0
