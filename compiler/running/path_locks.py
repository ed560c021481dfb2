"""DVC's path locks (`.dvc/tmp/rwlock`), such that no killed run stands in the way of the next.

The file names the process that reads or writes each path. DVC writes it in place, and half of one ends every later run. It also takes a
process for alive whose number exists: that of a zombie, which the first process of a container may never reap, or one that another
process has been given since.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qualm.registry.formats import atomic, textfiles
from qualm.runners.runtime.die_with_parent import runs

SLACK = 2.0
"""Seconds by which clocks of files and of processes may differ."""

Locks = dict[str, Any]
"""`read`: path -> its readers, `write`: path -> its writer; who: `pid`, `cmd`."""


def install() -> None:
    """Have DVC do so in this process."""
    import dvc.rwlock

    module: Any = dvc.rwlock
    # `pid_exists` is all that DVC's module uses of psutil.
    module.psutil, module._edit_rwlock = SimpleNamespace(pid_exists=runs), edited


def release_ended(repo: Any) -> None:
    """Take away the locks of processes that have ended. Call it before the first stage.

    Args:
        repo: a `dvc.repo.Repo`.
    """
    path = Path(repo.tmp_dir) / "rwlock"
    if not path.is_file():
        return
    with edited(repo.tmp_dir, repo.fs, repo.config["core"].get("hardlink_lock", False)) as locks:
        # Whoever began after the file was last written cannot be in it: its number was another process's before.
        last = path.stat().st_mtime
        keep(locks, lambda pid: _may_hold(pid, last))


def keep(locks: Locks, holds: Callable[[int], bool]) -> None:
    """Take away those of processes that do not hold them.

    >>> locks = {"read": {"a": [{"pid": 1, "cmd": "x"}, {"pid": 2, "cmd": "y"}]}, "write": {"b": {"pid": 2, "cmd": "y"}}}
    >>> keep(locks, lambda pid: pid == 1)
    >>> locks
    {'read': {'a': [{'pid': 1, 'cmd': 'x'}]}, 'write': {}}
    """
    for path, who in list(locks.get("write", {}).items()):
        if not holds(who["pid"]):
            del locks["write"][path]
    for path, readers in list(locks.get("read", {}).items()):
        locks["read"][path] = [who for who in readers if holds(who["pid"])]
        if not locks["read"][path]:
            del locks["read"][path]


@contextmanager
def edited(folder: str, fs: Any, hardlink: bool) -> Iterator[Locks]:
    """`dvc.rwlock._edit_rwlock`, but the file is replaced whole, and one that is no such file counts as empty.

    Who still works at a path of such a file is kept out by the lock of the stage (`qualm.runners.runtime.stage`).
    """
    from dvc.lock import make_lock

    path = Path(folder) / "rwlock"
    with make_lock(fs.join(folder, "rwlock.lock"), tmp_dir=folder, hardlink_lock=hardlink):
        locks = _read(path)
        yield locks
        # A name per process is enough: DVC's own lock around this keeps out its other threads.
        whole = path.with_name(f"rwlock.{os.getpid()}")
        whole.write_text(json.dumps(locks), encoding="utf-8", newline="\n")
        atomic.publish(whole, path)


def _read(path: Path) -> Locks:
    from dvc.rwlock import SCHEMA
    from voluptuous import Invalid

    try:
        locks: Locks = SCHEMA(json.loads(textfiles.read_bytes(path)))
    except (textfiles.NoFileError, ValueError, RecursionError, Invalid):
        locks = SCHEMA({})
    return {"read": defaultdict(list, locks["read"]), "write": defaultdict(dict, locks["write"])}


def _may_hold(pid: int, last: float) -> bool:
    """Whether a process may have written to a file that was last written at some time: it runs, and began before."""
    import psutil

    try:
        # Numbers of processes are used again: whoever began after the last writing cannot be who wrote.
        return runs(pid) and bool(psutil.Process(pid).create_time() <= last + SLACK)
    except psutil.NoSuchProcess:
        return False
    # Somebody else's process: keep its lock rather than run beside it.
    except psutil.AccessDenied:
        return True
