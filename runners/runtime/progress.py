"""Progress of a stage: sent to `qualm run`, or shown as a bar in a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from qualm.runners.runtime import status
from qualm.runners.runtime.settings import Settings, is_first

INTERVAL = 0.5
"""Minimum seconds between two events of one label."""


class Advance(Protocol):
    def __call__(self, n: int = 1) -> None: ...


@contextmanager
def progress(settings: Settings, label: str, total: int | None = None) -> Iterator[Advance]:
    """Show the progress of a stage: a bar, or without `total` a count; yields `advance(n=1)`."""
    if status.is_read():
        steps = _Steps(label, total, heard=settings.progress and is_first())
        yield steps
        steps.tell()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from qualm.registry.system.console import Console

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (settings.progress and console.is_terminal)) as bar:
        task = bar.add_task(label, total=total)

        def advance(n: int = 1) -> None:
            bar.advance(task, n)

        yield advance


class _Steps:
    """Counter that reports to `qualm run`, at most once per INTERVAL."""

    def __init__(self, label: str, total: int | None, heard: bool) -> None:
        self._label, self._total, self._heard = label, total, heard
        self._done, self._next = 0, 0.0
        self(0)

    def __call__(self, n: int = 1) -> None:
        self._done += n
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            self.tell()

    def tell(self) -> None:
        if self._heard:
            status.tell("progress", label=self._label, done=self._done, total=self._total)
