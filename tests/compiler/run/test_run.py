"""`qualm run` around DVC: one at a time, what it says before and after, how signals end it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.project.checkout import Project
from qualm.compiler.run import run, session
from qualm.compiler.run.run import INTERRUPTED, _describe_lock_holder, hold_run_lock, run_pipeline
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system.locks import ProcessLock

AGAIN = "; wait until it has ended, or stop it, and run this again"
SPEC = "qualm: 1\nname: {name}\ndatasets:\n  scenes: {{card: synthetic_scenes, test: 6}}\n"


def test_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/qualm", "run", "my spec"])
    with hold_run_lock(tmp_path) as first:
        assert first is None
        with hold_run_lock(tmp_path) as second:
            line = rf"another run is at work in this project \(process {os.getpid()}, since \d\d:\d\d:\d\d: qualm run 'my spec'\)"
            assert second is not None and re.fullmatch(line + re.escape(AGAIN), second)
        with hold_run_lock(tmp_path / "elsewhere") as other:
            assert other is None
    with hold_run_lock(tmp_path) as third:
        assert third is None
    assert not ProcessLock(tmp_path / run.RUN_LOCK).holder


def test_one_that_has_just_begun(tmp_path: Path) -> None:
    with hold_run_lock(tmp_path):
        (tmp_path / ".qualm/locks/run.lock.holder").unlink()
        with hold_run_lock(tmp_path) as second:
            assert second == f"another run is at work in this project (it has just begun){AGAIN}"


def test_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(run.shutil.disk_usage(tmp_path))
    (tmp_path / ".dvc").mkdir()
    monkeypatch.setattr(run.shutil, "disk_usage", lambda place: usage(10, 10, 81_920))
    assert run.full_disks(tmp_path) == [f"{tmp_path} has 80.0 KiB left"]
    for free, full in ((run.MIN_FREE_BYTES - 1, 1), (run.MIN_FREE_BYTES, 0)):
        monkeypatch.setattr(run.shutil, "disk_usage", lambda place, free=free: usage(10, 10, free))
        assert len(run.full_disks(tmp_path)) == full


def test_who_keeps_dvc_from_working(tmp_path: Path) -> None:
    who = "another DVC command is at work in this project (process {})" + AGAIN
    assert _describe_lock_holder(tmp_path) == who.format("unknown")
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    (tmp_path / ".dvc/tmp/lock").write_text(" 123\n")
    assert _describe_lock_holder(tmp_path) == who.format(123)
    (tmp_path / ".dvc/tmp/rwlock").write_text('{"read": {"a": [{"pid": 45, "cmd": "dvc repro x"}]}, "write": {}}')
    assert _describe_lock_holder(tmp_path) == who.format("45: dvc repro x")


@pytest.mark.parametrize(
    ("begin", "foreground"),
    [(lambda: None, True), (lambda: os.setpgid(0, 0), False), (os.setsid, False)],
    ids=["as it was started", "in a group of its own, as by `&`", "without the terminal"],
)
def test_whether_a_terminal_sends_ctrl_c_to_all(begin: Callable[[], None], foreground: bool) -> None:
    def code_of(pid: int, child: Callable[[], int]) -> int:
        if pid == 0:
            try:
                os._exit(child())
            finally:
                os._exit(9)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def below() -> int:
        begin()
        return int(session._is_in_foreground())

    pid, terminal = pty.fork()
    # A process that leads the session of a terminal cannot leave it, so its child does.
    code = code_of(pid, lambda: code_of(os.fork(), below))
    os.close(terminal)
    assert code == int(foreground)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for folder in ("specs", ".dvc", "registry/data"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("default: mine\n")
    for name in ("mine", "other"):
        (tmp_path / f"specs/{name}.yaml").write_text(SPEC.format(name=name))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Project()


class Dvc:
    """Stands in for the session: what it is asked, and an end in its place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = 0, interrupted: bool = False, locked: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.environments: list[dict[str, str]] = []
        self.pulls: list[bool] = []
        self.code, self.is_interrupted, self.is_locked = code, interrupted, locked
        monkeypatch.setattr(run, "Session", self._opened)

    def _opened(self, root: Path, environment: dict[str, str], console: Any, outputs: dict[str, Any], verbose: bool) -> Dvc:
        self.environments.append(environment)
        self._session = (sorted(outputs), verbose)
        return self

    def __enter__(self) -> Dvc:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def reproduce(self, pipeline: str, options: list[str], parallel: Any, is_pulling: bool) -> int:
        self.pulls.append(is_pulling)
        self.calls.append((pipeline, options, parallel, *self._session))
        return self.code


def test_it_compiles_and_says_what_will_happen(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dvc = Dvc(monkeypatch, 0)
    assert run_pipeline(project, None, ["--force"]) == 0
    lines = capsys.readouterr().out.splitlines()
    count = len(project.plan().stages)
    assert re.fullmatch(rf"mine: {count} stages?, \d+ to run, \d+ perhaps, 0 to restore, 0 up to date", lines[0])
    assert re.fullmatch(r"mine is up to date after \d+ s; `qualm show mine` shows the scores", lines[-1])
    assert dvc.calls == [("dvc.yaml", ["--force"], None, ["data-scenes"], False)] and (project.root / "dvc.yaml").is_file()
    assert run_pipeline(project, "other", []) == 0
    assert dvc.calls[1][0] == "specs/other/dvc.yaml" and dvc.calls[1][3] == ["specs/other/dvc.yaml:data-scenes"]


def test_the_report_is_pointed_at_where_there_is_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Dvc(monkeypatch, 0)
    (project.root / "results/mine").mkdir(parents=True)
    (project.root / "results/mine/report.html").write_text("")
    assert run_pipeline(project, None, []) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report: results/mine/report.html"


@pytest.mark.parametrize(
    ("end", "back", "last"),
    [
        ({"code": 255, "interrupted": True}, INTERRUPTED, "interrupted; what was done is kept: run it again to go on"),
        ({"code": 255}, 1, "stopped; what was done is kept: run it again to go on (-v shows what DVC says)"),
        ({"code": 255, "locked": True}, 1, f"another DVC command is at work in this project (process unknown){AGAIN}"),
    ],
)
def test_how_it_ends(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: dict[str, Any], back: int, last: str
) -> None:
    Dvc(monkeypatch, **end)
    assert run_pipeline(project, None, []) == back
    assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize(("arguments", "verbose", "shown"), [(["--dry"], False, True), ([], True, True), ([], False, False)])
def test_what_dvc_says_is_shown_where_it_is_asked_for_or_would_do(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: list[str], verbose: bool, shown: bool
) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, arguments, verbose)
    assert [call[4] for call in dvc.calls] == [shown]


def test_how_many_stages_at_a_time(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, [], jobs=3)
    (project.root / "qualm.toml").write_text("jobs = 5\n")
    run_pipeline(Project(), None, [])
    run_pipeline(Project(), None, [], jobs=2)
    run_pipeline(Project(), None, ["--dry"], jobs=2)
    assert [call[2] and call[2].jobs for call in dvc.calls] == [3, 5, 2, None]
    assert [e["QUALM_JOBS"] for e in dvc.environments] == ["3", "5", "2", "1"]


def test_options_that_parallel_stages_do_not_understand_run_them_one_by_one(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, ["--downstream"], jobs=2)
    run_pipeline(project, None, ["-f", "--keep-going"], jobs=2)
    assert [call[2] is None for call in dvc.calls] == [True, False]
    assert [*dvc.calls[1][2].stages] == ["dvc.yaml:data-scenes"]


def test_whether_results_are_pulled(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, [])
    run_pipeline(project, None, [], pull=False)
    run_pipeline(project, None, ["--dry"])
    assert dvc.pulls == [True, False, False]


def test_on_which_cluster(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dvc = Dvc(monkeypatch, 0)
    monkeypatch.setattr("qualm.compiler.run.cluster.is_installed", lambda extra: extra == "cluster")
    run_pipeline(project, None, [], on="ray://head:10001")
    (project.root / "qualm.toml").write_text('cluster = "head:6379"\n')
    run_pipeline(Project(), None, [])
    run_pipeline(Project(), None, ["--dry"])
    assert [e["QUALM_CLUSTER"] for e in dvc.environments] == ["ray://head:10001", "head:6379", ""]
    with pytest.raises(ProjectError, match=r"--on: expected `ray`, `ray://HOST:10001` or `HOST:6379`, got nothing; leave `--on` out"):
        run_pipeline(Project(), None, [], on="")
    monkeypatch.setattr("qualm.compiler.run.cluster.is_installed", lambda extra: False)
    with pytest.raises(ProjectError, match=r"--on ray: Ray is not installed: `pip install 'qualm-bench\[cluster\]'`"):
        run_pipeline(Project(), None, [], on="ray")


def test_what_is_missing_stops_it_before_it_begins(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dvc = Dvc(monkeypatch, 0)
    models = "models:\n  m: {hf_vlm: {artifact: gone}}\njudges: [rules]\nmetrics: [accuracy]\n"
    (project.root / "specs/mine.yaml").write_text(SPEC.format(name="mine") + models)
    assert run_pipeline(project, None, []) == 1 and dvc.calls == []
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "registry/data/gone" in line] and len(lines) == len(set(lines))


def test_parts_of_qualm_that_waiting_stages_lack_stop_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dvc = Dvc(monkeypatch, 0)
    monkeypatch.setattr(run, "missing_extras", lambda stages: {"models": names} if (names := [s.name for s in stages]) else {})
    assert run_pipeline(project, None, []) == 1 and dvc.calls == []
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("not installed, needed by data-scenes")


def test_it_asks_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    dvc = Dvc(monkeypatch, 0)
    for flag in ("-i", "--interactive"):
        with pytest.raises(ProjectError, match="`qualm run` asks nothing; `dvc repro --interactive` asks before every stage"):
            run_pipeline(project, None, ["--force", flag])
    assert dvc.calls == []


def test_while_another_runs_nothing_begins(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dvc = Dvc(monkeypatch, 0)
    with hold_run_lock(project.root):
        assert run_pipeline(project, None, []) == 1
    assert capsys.readouterr().out.startswith("another run is at work in this project (process ") and dvc.calls == []
