"""What `qualm run` shows: one line for each stage that did something and, on a terminal, a line that lives, with the stage at work.

It reads two files that the run appends to: events (`qualm.runners.runtime.status`), and the words that stages print
themselves, which are shown as they come.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from qualm.registry.terminal.console import Console
from qualm.registry.text import masked

REFRESH = 2
"""Times a second that the living line is drawn."""


class Follower:
    """Shows a run as far as it is; `update` shows what is new. Use it as a context."""

    def __init__(self, console: Console, events: Path, words: Path, stages: int, quiet: bool = False) -> None:
        self._out, self._stages, self._quiet = console, stages, quiet
        self._events, self._words = Tail(events), Tail(words)
        self._numbers: dict[str, int] = {}
        self._since, self._counts = time.monotonic(), ""
        self._line = Progress(
            *(TextColumn("{task.description}"), _Steps(), TimeElapsedColumn()),
            console=console,
            transient=True,
            refresh_per_second=REFRESH,
            disable=quiet or not console.is_terminal or console.is_dumb_terminal,
        )
        self._task: TaskID = self._line.add_task("starting DVC", total=None)

    def __enter__(self) -> Follower:
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def update(self) -> None:
        """Show what was told and said since the last time."""
        for line in self._events.lines():
            self._say_words()
            if not self._quiet:
                self._show(json.loads(line))
        self._say_words()

    def _show(self, event: dict[str, Any]) -> None:
        match event:
            case {"event": "begin", "stage": str(stage)}:
                self._since, self._counts = time.monotonic(), ""
                self._line.reset(self._task, total=None, description=self._named(stage), label="")
            case {"event": "progress", "label": label, "done": done, "total": total}:
                self._line.update(self._task, total=total, completed=done, label=label)
            case {"event": "done", "counts": str(counts)}:
                self._counts = counts
            case {"event": "end", "stage": stage, "how": "ran"}:
                self._say(f"{self._named(stage)}: {self._counts or 'done'} ({self._elapsed()})")
            case {"event": "end", "stage": stage, "how": "restored" | "fetched" as how}:
                self._say(f"{self._named(stage)}: {how} ({self._elapsed()})")
            case {"event": "failed", "stage": stage}:
                self._say(f"{self._named(stage)}: failed ({self._elapsed()})", "red")
            case {"event": "damaged", "path": path, "aside": aside}:
                self._say(f"{path}: damaged: its content is not the recorded one; moved to {aside}, to be restored or made again", "yellow")
            case {"event": "error", "error": error}:
                self._say(f"dvc: {error}", "red")

    def _named(self, stage: str) -> str:
        """`[ 3/12] judge`; stages of other specs with their spec, data without a number."""
        if stage.endswith(".dvc"):
            return stage.removesuffix(".dvc")
        number, width = self._numbers.setdefault(stage, len(self._numbers) + 1), len(str(self._stages))
        name = re.sub(r"^specs/([^/]+)/dvc.yaml:", r"\1/", stage)
        return f"[{number:>{width}}/{self._stages}] {name}"

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._since:.1f} s"

    def _say_words(self) -> None:
        for line in self._words.lines():
            if line.strip():
                self._say(line.rstrip())

    def _say(self, text: str, style: str = "") -> None:
        self._out.print(Text(masked(text.expandtabs(), ""), style), soft_wrap=True)


class _Steps(ProgressColumn):
    """What the stage does, and how many steps of it are done."""

    def render(self, task: Task) -> Text:
        count = f"{task.completed:,.0f}/{task.total:,.0f}" if task.total else f"{task.completed:,.0f}" if task.completed else ""
        return Text(f"{task.fields.get('label', '')} {count}".strip())


class Tail:
    """The lines that are appended to a file; one without its end yet waits for it."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def lines(self) -> Iterator[str]:
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield line.decode("utf-8", "replace")
