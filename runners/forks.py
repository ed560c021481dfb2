"""Stages that begin at once: forks of one process that has imported what they need, `python3 -m qualm.runners --forks`.

A stage has a process, environment, streams and exit status of its own, as if it had been started from nothing; only seconds of imports
are behind it. What asks is `qualm.compiler.running.forks`, over the socket that is this process's standard input; when that is closed or
whoever asked dies, this ends and its forks end with it. It runs no thread and touches no GPU, and it lets those begin from nothing whose
code has changed since it was imported. Linux only.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

ARGUMENT = "--forks"
LARGEST = 1 << 20
"""Bytes of one request."""
BEGUN = b"begun "
"""Said by the fork that has a stage; what follows is its exit status. Where it is not said, the stage is to be started from nothing."""
OURS = "qualm"


class QuickExit:
    """The end of a process without taking apart what it has in memory, which may take longer than all that it did.

    To be made before anything else, since what is registered first for the end is called last: all that libraries do at the end is done.
    """

    def __init__(self) -> None:
        self._status: int | None = None
        atexit.register(self._leave)

    def __call__(self, status: int) -> NoReturn:
        self._status = status
        sys.exit(status)

    def _leave(self) -> None:
        if self._status is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._status)


class ForkServer:
    """Forks on request."""

    def __init__(self, asking: socket.socket, prepare: Callable[[str], None]) -> None:
        """
        Args:
            asking: brings requests: what the environment of a stage has of its own, its key, its streams, and where its end is told.
            prepare: imports what a stage needs, by its key.
        """
        self._asking, self._prepare = asking, prepare
        self._running: dict[int, socket.socket] = {}
        # Taken before any request: a file edited while this process was starting is noticed too.
        self._before = _files()

    def prepare(self, key: str) -> None:
        """Import what a stage needs, before it is asked for or after."""
        with suppress(Exception):  # the stage itself says what is wrong
            self._prepare(key)
        # Modules imported just now join, but what was imported earlier keeps the state it was imported in.
        self._before = {**_files(), **self._before}

    def serve(self) -> str | None:
        """In a fork: the key of its stage. Here: None, when nobody asks any more."""
        ended, wake = os.pipe()
        # A full pipe must not block a signal handler, nor an empty one the loop.
        for end in (ended, wake):
            os.set_blocking(end, False)
        # A child's end must wake `select`; a handler alone would not, since Python restarts interrupted calls (PEP 475).
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready = select.select([self._asking.fileno(), ended], [], [])[0]
            if ended in ready:
                os.read(ended, LARGEST)
                self._reap()
            if self._asking.fileno() not in ready:
                continue
            data, files, *_ = socket.recv_fds(self._asking, LARGEST, 4)
            if not data:
                return None
            *streams, end_descriptor = files
            with socket.socket(fileno=end_descriptor) as answer:
                if (key := self._begin(json.loads(data), streams, answer)) is not None:
                    os.close(ended)
                    os.close(wake)
                    return key

    def _begin(self, request: dict[str, Any], streams: list[int], answer: socket.socket) -> str | None:
        """In a fork: the key of its stage."""
        key: str = request["key"]
        self.prepare(key)
        child = None
        # A fork copies only the calling thread: with others, a lock that one of them holds would stay locked for ever.
        if self._before == _files() and threading.active_count() == 1:
            with suppress(OSError):
                child = os.fork()
        if child == 0:
            # First of all: a fork that dies before this has not begun its stage, which is then started from nothing.
            answer.sendall(BEGUN)
            self._become(request, streams)
            return key
        # Else the reader of a stage's output would wait for us, after the stage has closed its end.
        for stream in streams:
            os.close(stream)
        if child is not None:
            # `serve` closes its own copy on return; this one stays open until there is an exit status to send.
            self._running[child] = answer.dup()
        return None

    def _become(self, request: dict[str, Any], streams: list[int]) -> None:
        """This process is a fork: have it be as one that was started for its stage."""
        # Or a stage's own children would wake the parent through the shared pipe.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._asking, *self._running.values()):
            one.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        for name in request["unset"]:
            os.environ.pop(name, None)
        os.environ.update(request["set"])
        sys.argv[1:] = [request["key"]]
        with suppress(OSError):
            Path("/proc/self/comm").write_text(request["key"].rpartition("/")[2], encoding="utf-8", newline="\n")  # for `top`
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # from here on a Ctrl-C is the stage's

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            # Several children may have ended behind one signal.
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with self._running.pop(ended[0]) as answer, suppress(OSError):
                    answer.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))


def _files() -> dict[str, tuple[int, int]]:
    """What tells whether code has changed since it was imported: time and size of our modules, and of the folders of all libraries."""
    own = (module for name, module in [*sys.modules.items()] if name.partition(".")[0] == OURS)
    places = {str(file) for module in own if (file := getattr(module, "__file__", None))}
    states = {}
    for place in places | {folder for folder in sys.path if folder.endswith("-packages")}:
        with suppress(OSError):
            state = Path(place).stat()
            states[place] = state.st_mtime_ns, state.st_size
    return states
