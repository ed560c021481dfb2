"""A command in a real pseudo-terminal: press keys, wait for text."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Terminal:
    """A process in a pseudo-terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "50"}
        environment.pop("NO_COLOR", None)
        ends = {"stdin": slave, "stdout": slave, "stderr": slave}
        self.process = subprocess.Popen(command, env=environment, start_new_session=True, **ends)
        os.close(slave)
        self.seen = ""
        self.decode = codecs.getincrementaldecoder("utf-8")().decode

    def until(self, text: str, seconds: float = 60) -> str:
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

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())
