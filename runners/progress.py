"""A progress bar on standard error, or nothing where it is not wanted or nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from runners.settings import Settings


class Advance(Protocol):
    def __call__(self, n: int = 1) -> None: ...


@contextmanager
def progress(settings: Settings, label: str, total: int | None = None) -> Iterator[Advance]:
    """Show `label` with a bar (or a running count without `total`); call what it gives for every step done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (settings.progress and console.is_terminal)) as bar:
        task = bar.add_task(label, total=total)

        def advance(n: int = 1) -> None:
            bar.advance(task, n)

        yield advance
