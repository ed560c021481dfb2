"""Follow a run through its files: events, output of stages, spending. Nothing is locked."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from qualm.compiler.run.follow import Tail
from qualm.compiler.run.run import RUN_LOCK
from qualm.registry.system.locks import ProcessLock
from qualm.registry.text import masked
from qualm.runners.runtime.die_with_parent import is_running
from qualm.runners.runtime.spending import FOLDER, Ledger

WORDS = 12
"""Number of output lines shown."""
ANSWERS = 6
"""Number of answers shown, the latest first."""


class LiveRun:
    """State of the present, or last, `qualm run` here, read from its log files."""

    def __init__(self, root: Path) -> None:
        self._root, self._lock = root, threading.Lock()
        self._logs = root / ".qualm" / "logs"
        self._ledgers: dict[str, Ledger] = {}
        self._begin()

    def _begin(self) -> None:
        self._events, self._words = Tail(self._logs / "run.events"), Tail(self._logs / "run.stages.log")
        self._size = 0
        self._stages: dict[str, dict[str, Any]] = {}
        self._output: deque[str] = deque(maxlen=WORDS)
        self._answers: deque[dict[str, str]] = deque(maxlen=ANSWERS)

    def state(self) -> dict[str, Any]:
        """Return the run's state as JSON values: command, stages, answers, log lines, dollars.

        Returns:
            `command` of the running process or ""; `stages`, each with `name`, `how` (at work, ran, restored, fetched, failed), `counts`,
            `label`, `done`, `total` and `seconds` since its last event; the latest `answers`, each with `stage`, `question` and `answer`;
            `words`, the last lines of the stages' log; `spent` in dollars by spec.
        """
        with self._lock:
            self._read()
            return {
                "command": self._command(),
                "stages": list(self._stages.values()),
                "answers": list(self._answers),
                "words": list(self._output),
                "spent": self._spent(),
            }

    def _read(self) -> None:
        file = self._logs / "run.events"
        if not file.is_file():
            return
        size, changed = file.stat().st_size, file.stat().st_mtime
        if size < self._size:  # another run has begun
            self._begin()
        self._size = size
        for line in self._events.lines():
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
        if (self._logs / "run.stages.log").is_file():
            self._output.extend(masked(line.rstrip(), "") for line in self._words.lines() if line.strip())
        for stage in self._stages.values():
            if stage["how"] == "at work":
                stage["seconds"] = round(max(0.0, time.time() - changed), 1)

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "begin":
            self._stages[event["stage"]] = {"name": _named(event["stage"]), "how": "at work"}
        elif event["event"] in ("end", "failed"):
            stage = self._stages.setdefault(event["stage"], {"name": _named(event["stage"])})
            stage["how"] = event.get("how", "failed")
        elif event["event"] == "answer":
            stage = {"stage": _named(event.get("by", ""))}
            self._answers.appendleft(stage | {name: str(event[name]) for name in ("question", "answer")})
        elif event["event"] in ("progress", "done"):
            at_work = [stage for stage in self._stages.values() if stage["how"] == "at work"]
            if at_work:
                at_work[-1].update({name: event[name] for name in ("label", "done", "total", "counts") if name in event})

    def _command(self) -> str:
        """Return the command and start time of the run in progress; "" if none runs."""
        match = re.match(r"process (\d+), since (\S+): (.*)", ProcessLock(self._root / RUN_LOCK).holder)
        return f"{match[3]}, since {match[2]}" if match and is_running(int(match[1])) else ""

    def _spent(self) -> dict[str, float]:
        for path in sorted((self._root / ".qualm" / FOLDER).glob("*.jsonl")):
            self._ledgers.setdefault(path.stem, Ledger(path, 0.0))
        return {spec: round(ledger.spent().all, 4) for spec, ledger in self._ledgers.items()}


def _named(stage: str) -> str:
    """Return "SPEC/STAGE" of a stage's DVC address; other texts unchanged.

    >>> _named("specs/mine/dvc.yaml:score"), _named("score")
    ('mine/score', 'score')
    """
    return re.sub(r"^specs/([^/]+)/dvc.yaml:", r"\1/", stage)
