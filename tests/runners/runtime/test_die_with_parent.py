"""A runner must not outlive what started it, nor its workers outlive it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

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
