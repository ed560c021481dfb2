"""`qualm run` around DVC: one at a time, what it says before and after, how signals end it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qualm.compiler.forecast.rebuilds import Forecast
from qualm.compiler.project.checkout import Project
from qualm.compiler.running import run
from qualm.compiler.running.reproduce import LOCKED
from qualm.compiler.running.run import INTERRUPTED, _other_dvc, _wait, only_run, run_pipeline
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.formats.locks import ProcessLock

AGAIN = "; wait until it has ended, or stop it, and run this again"
SPEC = "qualm: 1\nname: {name}\ndatasets:\n  scenes: {{card: synthetic_scenes, test: 6}}\n"


def test_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/qualm", "run", "my spec"])
    with only_run(tmp_path) as first:
        assert first is None
        with only_run(tmp_path) as second:
            line = rf"another run is at work in this project \(process {os.getpid()}, since \d\d:\d\d:\d\d: qualm run 'my spec'\)"
            assert second is not None and re.fullmatch(line + re.escape(AGAIN), second)
        with only_run(tmp_path / "elsewhere") as other:
            assert other is None
    with only_run(tmp_path) as third:
        assert third is None
    assert not ProcessLock(tmp_path / run.RUN_LOCK).holder


def test_one_that_has_just_begun(tmp_path: Path) -> None:
    with only_run(tmp_path):
        (tmp_path / ".qualm/locks/run.lock.holder").unlink()
        with only_run(tmp_path) as second:
            assert second == f"another run is at work in this project (it has just begun){AGAIN}"


def test_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(run.shutil.disk_usage(tmp_path))
    (tmp_path / ".dvc").mkdir()
    monkeypatch.setattr(run.shutil, "disk_usage", lambda place: usage(10, 10, 81_920))
    assert run.no_room(tmp_path) == [f"{tmp_path} has 80.0 KiB left"]
    for free, full in ((run.LITTLE - 1, 1), (run.LITTLE, 0)):
        monkeypatch.setattr(run.shutil, "disk_usage", lambda place, free=free: usage(10, 10, free))
        assert len(run.no_room(tmp_path)) == full


def test_who_keeps_dvc_from_working(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_text('{"event": "begin", "stage": "a"}\n{"event": "locked", "error": "unable"}\n')
    who = "another DVC command is at work in this project (process {})" + AGAIN
    assert _other_dvc(tmp_path, events) == who.format("unknown")
    (tmp_path / ".dvc/tmp").mkdir(parents=True)
    (tmp_path / ".dvc/tmp/lock").write_text(" 123\n")
    assert _other_dvc(tmp_path, events) == who.format(123)
    (tmp_path / ".dvc/tmp/lock").write_text("")
    assert _other_dvc(tmp_path, events) == who.format("unknown")
    error = "'a' is busy, it is being blocked by:\n  (PID 45): dvc repro x"
    events.write_text(json.dumps({"event": "locked", "error": error}) + "\n")
    assert _other_dvc(tmp_path, events) == who.format("45: dvc repro x")


@pytest.fixture(autouse=True)
def heeded_signals() -> Iterator[None]:
    """Signals as on a terminal: whoever starts the tests in the background, or by nohup, has them ignored."""
    before = {signum: signal.signal(signum, signal.SIG_DFL) for signum in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


class Signals:
    """In the place of the follower: sends this process signals, one each time that it is asked to show what is new."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.updates = list(numbers), 0

    def update(self) -> None:
        self.updates += 1
        if self.numbers:
            os.kill(os.getpid(), self.numbers.pop(0))


def waited(script: str, follower: Signals) -> tuple[int, int]:
    """What `_wait` gives, and how the process ended."""
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdin=subprocess.PIPE)
    code = _wait(process, follower)  # type: ignore[arg-type]
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    process.kill()
    return code, process.wait()


def test_the_exit_status_of_the_process() -> None:
    follower = Signals()
    assert waited("raise SystemExit(3)", follower) == (3, 3) and follower.updates >= 1


def test_ctrl_c_leaves_the_process_to_end_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_in_foreground", lambda: True)
    script = "import time; time.sleep(1); raise SystemExit(4)"
    assert waited(script, Signals(signal.SIGINT)) == (INTERRUPTED, 4)


FOREVER = "import sys; sys.stdin.read()"
THREE = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, lambda *_: None)
first = sys.argv[1:] == ["first"]
below = subprocess.Popen([sys.executable, __file__] if first else ["sleep", "20"])
print("begun", flush=True) if not first else None
raise SystemExit(5 if below.wait() == (5 if first else -signal.SIGINT) else 6)
"""


def test_what_no_terminal_sends_to_all_is_sent_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_in_foreground", lambda: False)
    (tmp_path / "three.py").write_text(THREE)
    process = subprocess.Popen([sys.executable, tmp_path / "three.py", "first"], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    assert (_wait(process, Signals(signal.SIGINT)), process.wait()) == (INTERRUPTED, 5)  # type: ignore[arg-type]


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
        return int(run._in_foreground())

    pid, terminal = pty.fork()
    # A process that leads the session of a terminal cannot leave it, so its child does.
    code = code_of(pid, lambda: code_of(os.fork(), below))
    os.close(terminal)
    assert code == int(foreground)


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,), (signal.SIGHUP,)])
def test_a_second_one_and_other_signals_end_it(numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_in_foreground", lambda: True)
    assert waited(FOREVER, Signals(*numbers)) == (INTERRUPTED, -signal.SIGKILL)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert waited("import time; time.sleep(1)", Signals(signal.SIGHUP)) == (0, 0)
    finally:
        signal.signal(signal.SIGHUP, before)


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
    """What DVC is started with, and an exit status in its place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.code = code
        monkeypatch.setattr(run, "reproduce", self._reproduce)

    def _reproduce(self, project: Project, arguments: list[str], stages: int, verbose: bool, *how: Any) -> int:
        self.calls.append((arguments, stages, verbose, *how))
        return self.code


def test_it_compiles_and_says_what_will_happen(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dvc = Dvc(monkeypatch, 0)
    assert run_pipeline(project, None, ["--force"]) == 0
    lines = capsys.readouterr().out.splitlines()
    count = len(project.plan().stages)
    assert re.fullmatch(rf"mine: {count} stages, \d+ to run, \d+ perhaps, 0 to restore, 0 up to date", lines[0])
    assert re.fullmatch(r"mine is up to date after \d+ s; `qualm show mine` shows the scores", lines[-1])
    assert (
        dvc.calls == [(["--pull", "dvc.yaml", "--force"], count, False, 1, "", set(), ["mine/data-scenes"])]
        and (project.root / "dvc.yaml").is_file()
    )
    assert run_pipeline(project, "other", []) == 0 and dvc.calls[1][0] == ["--pull", "specs/other/dvc.yaml"]


def test_the_report_is_pointed_at_where_there_is_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Dvc(monkeypatch, 0)
    (project.root / "results/mine").mkdir(parents=True)
    (project.root / "results/mine/report.html").write_text("")
    assert run_pipeline(project, None, []) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report: results/mine/report.html"


@pytest.mark.parametrize(
    ("code", "back", "last"),
    [
        (INTERRUPTED, INTERRUPTED, "interrupted; what was done is kept: run it again to go on"),
        (1, 1, "stopped; what was done is kept: run it again to go on (-v shows what DVC says)"),
        (255, 1, "stopped; what was done is kept: run it again to go on (-v shows what DVC says)"),
        (LOCKED, 1, None),
    ],
)
def test_how_it_ends(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, back: int, last: str | None
) -> None:
    Dvc(monkeypatch, code)
    assert run_pipeline(project, None, []) == back
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == last if last else len(lines) == 1


@pytest.mark.parametrize(("arguments", "verbose", "shown"), [(["--dry"], False, True), ([], True, True), ([], False, False)])
def test_what_dvc_says_is_shown_where_it_is_asked_for_or_would_do(
    project: Project, monkeypatch: pytest.MonkeyPatch, arguments: list[str], verbose: bool, shown: bool
) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, arguments, verbose)
    assert [call[2] for call in dvc.calls] == [shown]


def test_how_many_stages_at_a_time(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dvc = Dvc(monkeypatch, 0)
    run_pipeline(project, None, [], jobs=3)
    (project.root / "qualm.toml").write_text("jobs = 5\n")
    run_pipeline(Project(), None, [])
    run_pipeline(Project(), None, [], jobs=2)
    run_pipeline(Project(), None, ["--dry"], jobs=2)
    assert [call[3] for call in dvc.calls] == [3, 5, 2, 1]


@pytest.mark.parametrize(
    ("nothing", "arguments", "verbose", "starts"),
    [(True, [], False, 0), (False, [], False, 1), (True, ["--force"], False, 1), (True, [], True, 1)],
    ids=["nothing", "something", "forced", "verbose"],
)
def test_dvc_is_not_started_where_it_has_nothing_to_do(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    nothing: bool,
    arguments: list[str],
    verbose: bool,
    starts: int,
) -> None:
    dvc = Dvc(monkeypatch, 0)
    settled = frozenset(s.name for s in project.plan().stages[: None if nothing else -1])
    monkeypatch.setattr(run, "forecast_run", lambda plan, *_: ([Forecast(s.name, s.kind, "unchanged") for s in plan.stages], settled))
    assert run_pipeline(project, None, arguments, verbose) == 0 and len(dvc.calls) == starts
    assert [call[5:] for call in dvc.calls] == [(frozenset() if arguments or verbose else settled, [])] * starts
    count = len(project.plan().stages)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"mine: {count} stages, 0 to run, 0 perhaps, 0 to restore, {count} up to date"
    assert lines[-1] == "mine is up to date after 0 s; `qualm show mine` shows the scores"
    assert (project.root / ".qualm/runs/mine/made.json").is_file()


def test_on_which_cluster(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dvc = Dvc(monkeypatch, 0)
    monkeypatch.setattr("qualm.compiler.running.cluster.is_installed", lambda extra: extra == "cluster")
    run_pipeline(project, None, [], on="ray://head:10001")
    (project.root / "qualm.toml").write_text('cluster = "head:6379"\n')
    run_pipeline(Project(), None, [])
    run_pipeline(Project(), None, ["--dry"])
    assert [call[4] for call in dvc.calls] == ["ray://head:10001", "head:6379", ""]
    with pytest.raises(ProjectError, match=r"--on: expected `ray`, `ray://HOST:10001` or `HOST:6379`, got nothing; leave `--on` out"):
        run_pipeline(Project(), None, [], on="")
    monkeypatch.setattr("qualm.compiler.running.cluster.is_installed", lambda extra: False)
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
    with only_run(project.root):
        assert run_pipeline(project, None, []) == 1
    assert capsys.readouterr().out.startswith("another run is at work in this project (process ") and dvc.calls == []


SCRIPT = """\
#!/bin/sh
echo "$@" > arguments
echo "${QUALM_DVC_LOG:-none}" > log
echo '{"event": "begin", "stage": "one"}' >> "$QUALM_STATUS_FILE"
echo "a word of a stage"
echo "a cry" >&2
echo '{"event": "end", "stage": "one", "how": "restored"}' >> "$QUALM_STATUS_FILE"
%s
"""
"""In the place of the Python that runs DVC."""


def reproduced(project: Project, monkeypatch: pytest.MonkeyPatch, end: str, verbose: bool) -> int:
    script = project.root / "python"
    script.write_text(SCRIPT % end)
    script.chmod(0o755)
    monkeypatch.setattr(run.sys, "executable", str(script))
    return run.reproduce(project, ["--pull", "dvc.yaml"], 12, verbose)


def test_a_line_for_each_stage_and_the_words_of_stages(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = project.root / ".qualm/logs"
    logs.mkdir(parents=True)
    (logs / "run.events").write_text("what was told before")
    assert reproduced(project, monkeypatch, "exit 3", verbose=False) == 3
    out, err = capfd.readouterr()
    timeless = re.sub(r"\(\d+\.\d s\)", "(...)", out)
    assert sorted(timeless.splitlines()) == ["[ 1/12] one: restored (...)", "a cry", "a word of a stage"] and err == ""
    assert (project.root / "arguments").read_text() == "-m qualm.compiler.running.reproduce --pull dvc.yaml\n"
    assert (project.root / "log").read_text().strip() == str(logs / "run.dvc.log")
    assert (logs / "run.stages.log").read_text() == "a word of a stage\na cry\n" and (logs / "run.dvc.log").read_bytes() == b""


def test_verbose_is_what_dvc_says(project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert reproduced(project, monkeypatch, "exit 0", verbose=True) == 0
    out, err = capfd.readouterr()
    assert out == "a word of a stage\n" and err == "a cry\n" and (project.root / "log").read_text() == "none\n"


def test_who_is_at_work_is_said(project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert reproduced(project, monkeypatch, "exit 75", verbose=False) == LOCKED
    assert capfd.readouterr().out.splitlines()[-1] == f"another DVC command is at work in this project (process unknown){AGAIN}"
    assert reproduced(project, monkeypatch, "exit 74", verbose=False) == 74
    assert "another DVC" not in capfd.readouterr().out
