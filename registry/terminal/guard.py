"""The one way to the terminal: printed text cannot control it, whatever its source.

`guard` stands before standard output and standard error of a process: cards, servers, data sets, logs and file names may hold ESC
sequences, C1 controls and direction marks, and print() and typer.echo() pass them on. What has colours is printed by
`qualm.registry.terminal.console.Console`, which writes out the same characters in every text, and puts its own around it.
"""

import io
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from qualm.registry.machine import WINDOWS
from qualm.registry.text import hides, lines


class Guarded:
    """A text stream that writes out what steers."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream
        """Where Rich writes: its own sequences are meant."""

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(lines(text))
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.write(text)

    def __eq__(self, other: object) -> bool:
        """Equal to the stream behind it: at the end of a process absl closes the one it logs to, unless that is `sys.stderr`."""
        return other is self or other is self.rich_proxied_file

    def __hash__(self) -> int:
        return hash(self.rich_proxied_file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard() -> None:
    """Stand before this process's standard output and standard error, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Guarded):
            if WINDOWS and isinstance(stream, io.TextIOWrapper):  # where a pipe has an encoding that lacks most characters
                stream.reconfigure(encoding="utf-8")
            setattr(sys, name, Guarded(stream))
    if any(map(hides, "".join(sys.argv))):  # Typer quotes arguments in colours of its own
        from typer import rich_utils

        from qualm.registry.terminal.console import Console

        vars(rich_utils)["Console"] = Console
