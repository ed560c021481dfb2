"""Waiting for what another process or thread does: a deadline that only a hang reaches, and words for what never came."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psutil

T = TypeVar("T")
TIMEOUT = 180.0
"""Seconds; a busy machine may need a hundred times of what an idle one does."""


def wait_until(condition: Callable[[], T], what: str, seconds: float = TIMEOUT, every: float = 0.01) -> T:
    """The first true value of a condition, asked again and again."""
    end = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; one that nobody waits for stays a zombie, and any question about it may come too late."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def children(pid: int, *arguments: str) -> list[psutil.Process]:
    """The processes beneath one whose command line goes on, behind the program's name, with these arguments."""
    some = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.cmdline()[1 : 1 + len(arguments)] == [*arguments]:
                some.append(process)
    return some
