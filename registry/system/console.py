"""Rich's console for untrusted text, with `qualm.registry.system.guard` the only way to the terminal."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from qualm.registry.text import escape_hidden


class Console(RichConsole):
    """Rich console that shows control characters as escapes, without highlighting."""

    def __init__(self, *, highlight: bool = False, **settings: Any) -> None:
        super().__init__(highlight=highlight, **settings)

    @property
    def file(self) -> IO[str]:
        """Return the real output stream, not Rich's proxy or the guard."""
        file: IO[str] = super().file
        while (behind := getattr(file, "rich_proxied_file", None)) is not None:
            file = behind
        return file

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_hidden(segment.text), segment.style)
