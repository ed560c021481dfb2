"""No orphans: a runner ends when the `dvc` that started it is gone, even by kill -9, and its workers end with it.

DVC does not end the commands it started when it is killed, and its next run deletes the outputs and starts a second
writer beside the first. The lock in `qualm.runners.runtime.stage` makes the second wait; this makes the first give way.
"""

import ctypes
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

LIFELINE = "lifeline"
"""The thread that waits for the parent's end."""
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "ash"}
_PR_SET_PDEATHSIG = 1
_LINUX: bool = sys.platform.startswith("linux")


def die_with_parent() -> None:
    """Bind this process to what started it; call once, first thing.

    That is the parent and, where the parent is `sh -c COMMAND`, the process above that too: killing `dvc` leaves the
    shell alive. Nothing binds a runner that a person started from an interactive shell, so `nohup` works as ever.
    """
    keepers = _keepers()
    if not keepers:
        return
    if _LINUX:
        _bind_to_parent_on_linux()
    ends = [_end_of(pid) for pid in keepers]
    if keepers != _keepers():  # one of them died while we looked
        _end()
    threading.Thread(target=_watch, args=(keepers, ends), daemon=True, name=LIFELINE).start()


def _bind_to_parent_on_linux() -> None:
    """Have the kernel kill us with our parent, and every process that we fork with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.getpid()

    def bind_worker() -> None:
        nonlocal parent
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Its parent ended between the fork and the binding, of which no signal comes.
        if os.getppid() != parent:
            os._exit(1)
        parent = os.getpid()  # of what the worker may fork in its turn

    os.register_at_fork(after_in_child=bind_worker)


def _keepers() -> list[int]:
    parent = os.getppid()
    if parent <= 1:
        return []
    words = _command(parent)
    if not words or Path(words[0]).name.lstrip("-") not in _SHELLS:
        return [parent]
    # A shell that was given a command is DVC's: killed itself, DVC would leave it alive.
    if len(words) > 1 and words[1].startswith("-") and "c" in words[1].lstrip("-"):
        above = _stat(parent)[1]
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
    parent = keepers[0]
    while os.getppid() == parent and all(runs(pid) for pid in keepers):
        time.sleep(0.1)
    _end()


def _end_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, None where the kernel has no such thing."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        _end()
    except (AttributeError, OSError):  # macOS, old kernels and sandboxes
        return None


def _end() -> NoReturn:
    """End our workers, then ourselves, without another word: what is finished is on disk, the rest must not be written."""
    for pid in _children():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)  # not reached


def _children() -> list[int]:
    own = os.getpid()
    folders = Path("/proc").glob("[0-9]*") if _LINUX else ()
    return [int(f.name) for f in folders if _stat(int(f.name))[1] == own]


def _command(pid: int) -> list[str]:
    try:
        return [w.decode(errors="replace") for w in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
    except OSError:
        return []


def _stat(pid: int) -> tuple[str, int]:
    """State letter and parent of a process, as /proc tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError, ValueError):
        return "", 0


def runs(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    if _LINUX:
        return _stat(pid)[0] not in ("", "Z", "X")  # a zombie has ended, though nobody has asked after it yet
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
