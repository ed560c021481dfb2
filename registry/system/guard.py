"""Guard of standard output and standard error: printed text cannot control the terminal.

Cards, servers, datasets, logs and file names may hold ESC sequences, C1 controls and direction marks, and print() and typer.echo() pass
them on. Coloured text is printed by `qualm.registry.system.console.Console`, which escapes the same characters.
"""

import io
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from qualm.registry.machine import WINDOWS
from qualm.registry.text import escape_hidden, is_hidden


class Guarded:
    """Text stream that writes control characters as escapes to another stream."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escape_hidden(text))
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.write(text)

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is this stream or the wrapped one; absl needs that at exit."""
        return other is self or other is self.rich_proxied_file

    def __hash__(self) -> int:
        return hash(self.rich_proxied_file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard() -> None:
    """Wrap standard output and error in `Guarded`, unless they are already.

    Set UTF-8 on Windows. Replace Typer's console if an argument has hidden characters.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Guarded):
            if WINDOWS and isinstance(stream, io.TextIOWrapper):  # where a pipe has an encoding that lacks most characters
                stream.reconfigure(encoding="utf-8")
            setattr(sys, name, Guarded(stream))
    if any(map(is_hidden, "".join(sys.argv))):  # Typer quotes arguments in colours of its own
        from typer import rich_utils

        from qualm.registry.system.console import Console

        vars(rich_utils)["Console"] = Console
