"""A command in a real pseudo-terminal: press keys, wait for text."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes.waiting import TIMEOUT

ROOT = Path(__file__).resolve().parents[3]

CONTROL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Makes the pseudo-terminal the one whose Ctrl-C the process gets, with all that it starts."""


class Terminal:
    """A process in a pseudo-terminal of its own."""

    def __init__(self, command: list[str], folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        usual = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        environment = {**(environment or usual), "COLUMNS": "100", "LINES": "50"}
        environment.pop("NO_COLOR", None)
        ends = {"stdin": slave, "stdout": slave, "stderr": slave}
        command = [sys.executable, "-c", CONTROL, *command]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **ends)
        os.close(slave)
        self.seen = ""
        self.decode = codecs.getincrementaldecoder("utf-8")().decode

    def until(self, text: str, seconds: float = TIMEOUT) -> str:
        """What is printed up to and with a text."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"'{text}' not seen in {self.seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += self.decode(os.read(self.master, 65536))
                except OSError:  # the process has ended
                    assert text in self.seen, self.seen
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def rest(self, seconds: float = 600) -> str:
        """What is printed from here to the end."""
        end = time.monotonic() + seconds
        while True:
            assert time.monotonic() < end, f"no end of {self.seen!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += self.decode(os.read(self.master, 65536))
                except OSError:  # the process has ended
                    self.process.wait(seconds)
                    return self.seen

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())
