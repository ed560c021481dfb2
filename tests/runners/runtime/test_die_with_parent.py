"""A runner must not outlive what started it, nor its workers outlive it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from qualm.runners.runtime import die_with_parent as module
from tests.support.processes.waiting import is_gone, wait_until

ROOT = Path(__file__).resolve().parents[3]
RUNNER = """
import os, sys, time
from pathlib import Path
from qualm.runners.runtime.die_with_parent import die_with_parent
die_with_parent()
if sys.argv[2:] == ["fork"]:
    child = os.fork()
    if not child:
        time.sleep(600)
Path(sys.argv[1] + ".partial").write_text(str(os.getpid()) + (f" {child}" if sys.argv[2:] else ""))
os.rename(sys.argv[1] + ".partial", sys.argv[1])
time.sleep(600)
"""


def command(tmp_path, *more):
    (tmp_path / "runner.py").write_text(RUNNER)
    return [sys.executable, str(tmp_path / "runner.py"), str(tmp_path / "pid"), *more]


def launch(arguments, **more):
    """A process that starts `arguments` and waits, as dvc does."""
    code = f"import subprocess; subprocess.run({arguments!r}, **{more!r})"
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})


def processes(tmp_path):
    """The runner, and its worker where it has one."""
    wait_until((tmp_path / "pid").exists, "the runner says its process id")
    return [psutil.Process(int(p)) for p in (tmp_path / "pid").read_text().split()]


def gone(*some):
    """Returns when all have ended; they would sleep for ten times as long as anybody waits here."""
    wait_until(lambda: all(map(is_gone, some)), f"the end of {some}", seconds=60)
    return True


def lives_on(process, seconds):
    """Whether it has not ended after so long."""
    time.sleep(seconds)
    return not is_gone(process)


@pytest.mark.slow
@pytest.mark.parametrize("shell", [None, "/bin/sh", "/bin/bash"])
def test_dies_with_its_launcher_even_through_a_shell(tmp_path, shell):
    if shell is None:
        launcher = launch(command(tmp_path))
    else:  # `true;` keeps the shell from replacing itself by the command
        launcher = launch("true; " + " ".join(command(tmp_path)) + "; true", shell=True, executable=shell)
    (runner,) = processes(tmp_path)
    assert lives_on(runner, 0.3)
    launcher.send_signal(signal.SIGKILL)  # and nobody waits for it: it stays a zombie
    assert gone(runner)
    launcher.wait()


def test_workers_die_with_a_killed_runner(tmp_path):
    launcher = launch(command(tmp_path, "fork"))
    runner, worker = processes(tmp_path)
    runner.kill()
    assert gone(worker)
    launcher.wait()


def test_workers_die_when_the_launcher_does(tmp_path):
    launcher = launch("true; " + " ".join(command(tmp_path, "fork")) + "; true", shell=True)
    runner, worker = processes(tmp_path)
    launcher.kill()
    assert gone(runner, worker)
    launcher.wait()


def test_polling_does_where_the_kernel_has_no_pidfd(tmp_path):
    arguments = command(tmp_path)
    source = (tmp_path / "runner.py").read_text().replace("import os,", "import os; del os.pidfd_open\nimport")
    (tmp_path / "runner.py").write_text(source)
    launcher = launch("true; " + " ".join(arguments) + "; true", shell=True)
    (runner,) = processes(tmp_path)
    launcher.kill()
    assert gone(runner)
    launcher.wait()


@pytest.mark.slow
def test_what_an_interactive_shell_started_lives_on(tmp_path):
    shell = subprocess.Popen(["/bin/bash"], stdin=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    shell.stdin.write(" ".join(command(tmp_path)) + " &\n")
    shell.stdin.flush()
    (runner,) = processes(tmp_path)
    try:
        shell.kill()
        assert lives_on(runner, 0.6)
    finally:
        runner.kill()
        shell.wait()


@pytest.mark.parametrize(
    ("words", "above", "keepers"),
    [
        (["/usr/bin/python3", "-m", "dvc"], 40, [50]),
        ([], 40, [50]),
        (["/bin/sh", "-c", "python3 specs/run.py s/x"], 40, [50, 40]),
        (["/bin/sh", "-c", "python3 specs/run.py s/x"], 2, [50, 2]),
        (["/bin/sh", "-c", "python3 specs/run.py s/x"], 1, [50]),
        (["bash", "-lc", "make"], 40, [50, 40]),
        (["/bin/bash", "run.sh"], 40, [50]),
        (["bash", "-x", "run.sh"], 40, [50]),
        (["-bash"], 40, []),
        (["bash"], 40, []),
        (["zsh", "-i"], 40, []),
        (["bash", "code.sh"], 40, [50]),
        (["cmd.exe", "/c", "python3 specs/run.py s/x"], 40, [50, 40]),
        (["cmd.exe"], 40, []),
    ],
)
def test_who_started_it(monkeypatch, words, above, keepers):
    """A command of a shell ends with what started the shell; what a person types at a prompt ends with nobody."""
    monkeypatch.setattr(module.os, "getppid", lambda: 50)
    monkeypatch.setattr(module, "_command", {50: words}.get)
    monkeypatch.setattr(module, "_parent", {50: above}.get)
    assert module._keepers() == keepers


@pytest.mark.parametrize(("parent", "keepers"), [(0, []), (1, []), (2, [2])])
def test_what_init_started_is_bound_to_nothing(monkeypatch, parent, keepers):
    monkeypatch.setattr(module.os, "getppid", lambda: parent)
    monkeypatch.setattr(module, "_command", lambda pid: ["daemon"])
    assert module._keepers() == keepers


def test_what_runs_and_what_has_ended():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "two words"])
    assert module.is_running(os.getpid()) and module.is_running(child.pid)
    wait_until(lambda: module._command(child.pid)[-1:] == ["two words"], "the child has begun")
    assert module._command(child.pid)[1] == "-c" and module._parent(child.pid) == os.getpid()
    child.kill()
    wait_until(lambda: not module.is_running(child.pid), "it is a zombie")
    assert child.wait() == -signal.SIGKILL
    assert not module.is_running(child.pid)
    assert module._command(child.pid) == [] and module._parent(child.pid) == 0
