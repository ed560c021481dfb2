"""End a runner when the `dvc` that started it is gone, even by kill -9, and its workers with it.

A killed DVC leaves its commands running, and its next run would start a second writer. The lock in `qualm.runners.runtime.stage` makes
the second wait; this module ends the first.
"""

import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import NoReturn

import psutil

from qualm.registry.machine import LINUX, end_with_parent

_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "cmd.exe", "powershell.exe", "pwsh.exe", "pwsh"}


RUN_PROCESS = "QUALM_RUN_PROCESS"
"""Environment variable with the `qualm run` whose end also ends all processes below it."""


def lifeline_environment() -> dict[str, str]:
    """Return {variable: value}: a child that calls `die_with_parent` ends with this process.

    `die_with_parent` reads it, so a child ends even if this process is killed before the child has started to watch it.
    """
    return {RUN_PROCESS: f"{os.getpid()} {psutil.Process().create_time()} {socket.gethostname()}"}


def _run_keeper() -> list[int]:
    """Return [PID] of the `qualm run` above, [] if none is on this host; exit if it has ended."""
    pid, began, host = [*os.environ.get(RUN_PROCESS, "").split(maxsplit=2), "", "", ""][:3]
    if host != socket.gethostname():  # a launcher copied the variable to another machine
        return []
    try:
        if is_running(int(pid)) and psutil.Process(int(pid)).create_time() == float(began):
            return [int(pid)]
    except psutil.Error:
        pass
    _end()


def die_with_parent() -> None:
    """End this process when the one that started it (no interactive shell) ends; call once.

    If the parent is `sh -c COMMAND`, the process above it counts too, as killing `dvc` leaves the shell alive; and so does the `qualm run`
    of `lifeline_environment`. A runner that a person starts from an interactive shell is not bound, so that `nohup` works.
    """
    run, parents = _run_keeper(), _keepers()
    if not run + parents:
        return
    bind_to_parent()
    keepers = [*parents, *run]
    ends = [_open_pidfd(pid) for pid in keepers]
    if parents != _keepers():  # one of them has ended meanwhile
        _end()
    threading.Thread(target=_watch, args=(keepers, ends), daemon=True, name="lifeline").start()


def bind_to_parent() -> None:
    """Ask the kernel to kill this process and its forks when their parents end (Linux only)."""
    if not LINUX:
        return
    end_with_parent()
    parent = os.getpid()

    def bind_worker() -> None:
        nonlocal parent
        end_with_parent()
        # The parent ended between fork and binding, which sends no signal.
        if os.getppid() != parent:
            os._exit(1)
        parent = os.getpid()  # of forks of the worker

    os.register_at_fork(after_in_child=bind_worker)


def _keepers() -> list[int]:
    parent = os.getppid()
    if parent <= 1:
        return []
    words = _command(parent)
    if not words or Path(words[0]).name.lstrip("-") not in _SHELLS:
        return [parent]
    # A shell with a command was started by DVC, and would outlive it.
    if len(words) > 1 and (words[1].lower() == "/c" or (words[1].startswith("-") and "c" in words[1].lstrip("-"))):
        above = _parent(parent)
        return [parent, above] if above > 1 else [parent]
    script = any(not word.startswith("-") for word in words[1:])
    return [parent] if script else []


def _watch(keepers: list[int], ends: list[int | None]) -> None:
    if None not in ends:
        poll = select.poll()
        for end in ends:
            poll.register(end or 0, select.POLLIN)
        poll.poll()
        _end()
    parent = os.getppid()
    while os.getppid() == parent and all(is_running(pid) for pid in keepers):
        time.sleep(0.1)
    _end()


def _open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if unsupported; kill this process if the other has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        _end()
    except (AttributeError, OSError):  # macOS, Windows, old kernels and sandboxes
        return None


def _end() -> NoReturn:
    """Kill the child processes and this process at once, so that no half output is published."""
    me = psutil.Process()
    for child in me.children():
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    me.kill()
    os._exit(1)  # not reached


def _command(pid: int) -> list[str]:
    """Return a process's command line as words; empty if it has ended or is not readable."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def _parent(pid: int) -> int:
    """Return the PID of a process's parent; 0 if the process cannot be read."""
    try:
        return int(psutil.Process(pid).ppid())
    except psutil.Error:
        return 0


def is_running(pid: int) -> bool:
    """Return whether a process runs or may not be inspected; a zombie does not run."""
    if pid <= 0:
        return False
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
