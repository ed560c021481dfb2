"""Rich's console for untrusted text; the only one that is used: see `qualm.registry.terminal.guard`."""

from collections.abc import Iterable

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from qualm.registry.text import lines


class Console(RichConsole):
    """A console in whose texts nothing steers: colours and places are its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)
