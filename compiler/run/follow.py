"""Show the progress of `qualm run`: a line for each finished stage and, on a terminal, a live line for each running one.

It reads files that the run appends to: events (`qualm.runners.runtime.status`) and the output of stages. Parallel stages have a file
each, and their output is shown with their names.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from qualm.compiler.spec import sentences as say
from qualm.registry.system.console import Console
from qualm.registry.text import masked

REFRESH_PER_SECOND = 2


class Follower:
    """Context manager that shows a run's progress at each `update()`: stages done, running."""

    def __init__(self, console: Console, events: Path, words: Path, stages: int, quiet: bool = False) -> None:
        self._out, self._stages, self._quiet = console, stages, quiet
        self._events, self._words = Tail(events), Tail(words)
        self._numbers: dict[str, int] = {}
        self._outputs: dict[str, Tail] = {}
        self._at_work: dict[str, _AtWork] = {}
        self._line = Progress(
            *(TextColumn("{task.description}"), _Steps(), TimeElapsedColumn()),
            console=console,
            transient=True,
            refresh_per_second=REFRESH_PER_SECOND,
            disable=quiet or not console.is_terminal or console.is_dumb_terminal,
        )
        self._start: TaskID | None = self._line.add_task(say.STARTING_DVC, total=None)

    def __enter__(self) -> Follower:
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def update(self) -> None:
        """Show new events as progress, and print new output lines.

        A quiet follower ignores the events.
        """
        for line in self._events.lines():
            # What a stage printed before an event is shown before it: the two files have no common clock.
            self._say_words()
            if not self._quiet:
                self._show(json.loads(line))
        self._say_words()

    def _show(self, event: dict[str, Any]) -> None:
        running = self._at_work.get(event.get("by") or event.get("stage", ""))
        match event:
            case {"event": "begin", "stage": str(stage)}:
                self._begin(stage)
            case {"event": "output", "stage": str(stage), "path": path}:
                self._outputs[stage] = Tail(Path(path))
            case {"event": "progress", "label": label, "done": done, "total": total} if running:
                self._line.update(running.task, total=total, completed=done, label=label)
            case {"event": "done", "counts": str(counts)} if running:
                running.counts = counts
            case {"event": "end", "stage": stage, "how": "ran"} if running:
                self._end(stage, running.counts or "done")
            case {"event": "end", "stage": stage, "how": "restored" | "fetched" as how}:
                self._end(stage, how)
            case {"event": "end", "stage": stage}:
                self._end(stage)
            case {"event": "failed", "stage": stage}:
                self._end(stage, "failed", "red")
            case {"event": "interrupted", "stage": stage}:
                self._end(stage, "interrupted", "yellow")
            case {"event": "damaged", "path": path, "aside": aside}:
                self._say(say.STAGE_DAMAGED_FILE.format(path=path, aside=aside), "yellow")
            case {"event": "error", "error": error}:
                self._say(say.DVC_SAYS.format(error=error), "red")

    def _begin(self, stage: str) -> None:
        if self._start is not None:
            self._line.remove_task(self._start)
            self._start = None
        if stage in self._at_work:  # it had to wait for another
            self._end(stage)
        self._at_work[stage] = _AtWork(self._line.add_task(self._named(stage), total=None, label=""), self._outputs.get(stage))

    def _end(self, stage: str, how: str = "", style: str = "") -> None:
        running = self._at_work.pop(stage, None)
        if running is None:
            return
        self._say_words_of(stage, running)
        self._line.remove_task(running.task)
        if how:
            seconds = time.monotonic() - running.since
            self._say(f"{self._named(stage)}: {how} ({seconds:.1f} s)", style)

    def _named(self, stage: str) -> str:
        """Return "[ 3/12] SPEC/STAGE" for a stage's address, numbered by start; "X" for "X.dvc"."""
        if stage.endswith(".dvc"):
            return stage.removesuffix(".dvc")
        number, width = self._numbers.setdefault(stage, len(self._numbers) + 1), len(str(self._stages))
        name = re.sub(r"^specs/([^/]+)/dvc.yaml:", r"\1/", stage)
        return f"[{number:>{width}}/{self._stages}] {name}"

    def _say_words(self) -> None:
        for line in self._words.lines():
            if line.strip():
                self._say(line.rstrip())
        for stage, running in self._at_work.items():
            self._say_words_of(stage, running)

    def _say_words_of(self, stage: str, running: _AtWork) -> None:
        named = self._named(stage)
        for line in running.words.lines() if running.words else ():
            if line.strip():
                text = line.rstrip().removeprefix(f"{named.rpartition(' ')[2]}: ")  # stages often begin with their name
                self._say(f"{named}: {text}")

    def _say(self, text: str, style: str = "") -> None:
        self._out.print(Text(masked(text.expandtabs(), ""), style), soft_wrap=True)


@dataclass
class _AtWork:
    task: TaskID
    words: Tail | None = None
    since: float = field(default_factory=time.monotonic)
    counts: str = ""


class _Steps(ProgressColumn):
    def render(self, task: Task) -> Text:
        count = f"{task.completed:,.0f}/{task.total:,.0f}" if task.total else f"{task.completed:,.0f}" if task.completed else ""
        return Text(f"{task.fields.get('label', '')} {count}".strip())


class Tail:
    """Reader of a growing file; `lines` yields the complete lines since its last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def lines(self) -> Iterator[str]:
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                # The other process is still writing this line.
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield line.decode("utf-8", "replace")
