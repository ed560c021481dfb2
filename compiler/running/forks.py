"""Stages that begin without seconds of imports: asks `qualm.runners.forks` for them, in the place of DVC's own start of a command.

Only the command that every compiled stage has is begun so, and only where one process does the work; the rest DVC starts as ever.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from qualm.registry.machine import LINUX
from qualm.runners.forks import ARGUMENT, BEGUN
from qualm.runners.runtime.settings import Settings

COMMAND = re.compile(r"python3 -m qualm\.runners ([A-Za-z0-9_.-]+/[A-Za-z0-9_.@-]+)")


class Forks:
    """The process to fork from, started in the main thread so that it ends with this process."""

    def __init__(self, environment: Mapping[str, str], ahead: Sequence[str] = ()) -> None:
        """
        Args:
            environment: of that process.
            ahead: keys of stages that are asked for soon.
        """
        self._environment, self._folder = dict(environment), Path.cwd()
        self._turn = threading.Lock()
        # Packets, not a stream: a request and the descriptors sent with it arrive together, without framing of ours.
        self._asking, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a Ctrl-C is for its forks, which let it through again
        try:
            with theirs:
                command = ["python3", "-m", "qualm.runners", ARGUMENT, *ahead]
                self._server: subprocess.Popen[bytes] | None = subprocess.Popen(command, stdin=theirs.fileno(), env=self._environment)
        except OSError:
            self._server = None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        self._asking.close()
        if self._server is not None:
            self._server.wait()

    def run(self, key: str, folder: Path, environment: Mapping[str, str], streams: tuple[int, int, int]) -> int | None:
        """One stage, from its beginning to its end: its exit status, or None where it has to be started from nothing.

        Args:
            key: of the stage.
            folder: its working directory.
            environment: its environment, whole.
            streams: its standard input, output and error.
        """
        if self._server is None or folder != self._folder:
            return None
        # Only what differs: a whole environment may be more than one packet takes.
        own = {name: value for name, value in environment.items() if self._environment.get(name) != value}
        request = {"key": key, "set": own, "unset": [name for name in self._environment if name not in environment]}
        answer, theirs = socket.socketpair()
        with answer:
            # Our copy of their end must be closed before reading, or the end of the answer would never come.
            with theirs, self._turn:
                try:
                    socket.send_fds(self._asking, [json.dumps(request).encode()], [*streams, theirs.fileno()])
                except OSError:
                    return None
            answer_bytes = _all(answer)
        if not answer_bytes.startswith(BEGUN):
            return None
        # Begun and then no status: the server itself was killed, and its forks with it.
        return int(answer_bytes.removeprefix(BEGUN) or -signal.SIGKILL)


def _all(answer: socket.socket) -> bytes:
    with answer.makefile("rb") as file, suppress(ConnectionError):
        return file.read()
    return b""


@contextmanager
def started(settings: Settings, ahead: Sequence[str] = ()) -> Iterator[Forks | None]:
    """The process to fork from, which imports what the stages `ahead` need; None where every stage is started from nothing."""
    alone = settings.devices == settings.nodes == 1 and not settings.launcher
    if not LINUX or not alone or not settings.forks:
        yield None
        return
    forks = Forks(os.environ, ahead)
    try:
        yield forks
    finally:
        forks.close()


@contextmanager
def installed(forks: Forks | None) -> Iterator[None]:
    """Within it DVC begins stages so. For the main thread of a process that does nothing else."""
    import dvc.stage.run
    from dvc.stage.exceptions import StageCmdFailedError

    if forks is None:
        yield
        return
    plain = dvc.stage.run._run

    def run(executable: str | None, command: str, **options: Any) -> None:
        match = COMMAND.fullmatch(command)
        status = _waited(forks, match[1], options) if match else None
        if status is None:
            plain(executable, command, **options)
        elif status:
            raise StageCmdFailedError(command, status)

    dvc.stage.run._run = run
    try:
        yield
    finally:
        dvc.stage.run._run = plain


def _waited(forks: Forks, key: str, options: Mapping[str, Any]) -> int | None:
    """One stage, while Ctrl-C is left to it, as DVC has it."""
    # Signals can be set by the main thread alone; in the others DVC has no handler to put out of the way.
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        streams = (0, _descriptor(options.get("stdout"), 1), _descriptor(options.get("stderr"), 2))
        return forks.run(key, Path(options["cwd"]), options["env"], streams)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _descriptor(file: IO[bytes] | None, standard: int) -> int:
    return standard if file is None else file.fileno()
