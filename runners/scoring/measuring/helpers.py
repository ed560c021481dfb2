"""Forks that work through a list from its far end while this process goes through it from the front.

What they make goes to a store, where this process finds it; so they change no result, and one that dies, hangs or is told to stop costs
nothing but its help. Linux only: elsewhere there are none.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qualm.registry.machine import LINUX, available_memory, peak_memory
from qualm.runners.runtime.die_with_parent import LIFELINE

MOST = 7
"""Forks of one stage."""
STOP_WITHIN = 2.0
"""Seconds in which a fork that is told to stop removes what it was writing."""
IDLE = {"MainThread", LIFELINE}
"""Threads of Python beside which a process can be forked: these hold no lock."""
_COUNT = struct.Struct("=q")


class Helpers:
    """Up to `most` forks, none until `begin`."""

    def __init__(self, items: int, work: Callable[[int], Iterator[int]], most: int) -> None:
        """
        Args:
            items: how many there are to work on.
            work: makes what item number i needs and puts it where this process looks for it; yields how many results come next, before it
                puts them there.
            most: forks.
        """
        self._items, self._work, self._most = items, work, most
        self._pids: list[int] = []
        self._begun = False
        self._size = 1 + _COUNT.size  # of an item: whether somebody has begun it, how many results a fork has made of it
        self._shared = mmap.mmap(-1, max(1, items * self._size))

    def reached(self, item: int) -> None:
        """This process begins an item."""
        self._shared[item * self._size] = 1

    @property
    def made(self) -> int:
        """Results of all forks, those included that this process made too, since it came to an item before its fork was through."""
        return sum(map(self._made, range(self._items)))

    def begin(self) -> None:
        """Fork, the first time that this is called: there is something to do, and memory for it."""
        if self._begun:
            return
        self._begun = True
        left = sum(not self._shared[item * self._size] for item in range(self._items))
        if not LINUX or {thread.name for thread in threading.enumerate()} - IDLE:
            return
        own = peak_memory()
        # Each fork may come to copy all that is shared at first, and make as much again.
        for _ in range(min(self._most, left, free_memory() // (2 * own))):
            # Else a fork would print once more what is still in the buffer.
            sys.stdout.flush()
            sys.stderr.flush()
            with warnings.catch_warnings():  # of threads that rest: pyarrow's and BLAS's, which know of forks
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                self._help()
            self._pids.append(pid)

    def end(self) -> None:
        """Stop the forks."""
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_WITHIN
        for pid in self._pids:
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.002)
        self._pids.clear()

    def _made(self, item: int) -> int:
        return int(_COUNT.unpack_from(self._shared, item * self._size + 1)[0])

    def _help(self) -> None:
        """The whole life of a fork."""
        with suppress(BaseException):  # this process comes to the same item, and says what is wrong with it
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit())
            sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8", newline="\n")  # noqa: SIM115 - until the process ends
            # No lock: two may begin one item at the same moment, which costs time and changes nothing.
            for item in range(self._items - 1, -1, -1):
                if self._shared[item * self._size]:
                    continue
                self._shared[item * self._size] = 1
                for results in self._work(item):
                    _COUNT.pack_into(self._shared, item * self._size + 1, self._made(item) + results)
        # Not `sys.exit`, which would run the parent's clean-up: its temporary folders and locks are not ours.
        os._exit(0)


@contextmanager
def helping(items: int, work: Callable[[int], Iterator[int]], most: int) -> Iterator[Helpers]:
    """Helpers that are gone when the block ends."""
    helpers = Helpers(items, work, most)
    try:
        yield helpers
    finally:
        helpers.end()


def free_memory() -> int:
    """Bytes that can be had without swapping, of the machine and of the container."""
    free = available_memory()
    with suppress(OSError, ValueError):  # without a limit the file says "max"
        most, used = (int((Path("/sys/fs/cgroup") / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        free = min(free, most - used)
    return max(0, free)
