"""The order of stages in `dvc.lock`: that of the pipeline, whichever of them ends first.

DVC appends a stage to its lock when it has ended. What is new goes before what comes later in the pipeline, so that a lock has the same
bytes whether its stages ran one by one, side by side, or in several runs after kills. What stood there before keeps its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any


class LockOrder:
    """Knows the order in which stages run."""

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], int] = {}

    def learn(self, stages: Iterable[Any]) -> None:
        """The stages of a run, in the order in which `dvc repro` has them one by one."""
        for position, stage in enumerate(stages):
            if stage.cmd:
                lock = Path(stage.path).with_suffix(".lock").resolve()
                self._positions[str(lock), stage.name] = position

    def arrange(self, lock: Path, data: Any) -> None:
        """Move what is new in a lock that is about to be written to its place."""
        place = str(lock.resolve())
        stages = data.get("stages") if isinstance(data, MutableMapping) else None
        if lock.suffix != ".lock" or not isinstance(stages, MutableMapping):
            return
        before = _names(lock)
        for name in [name for name in stages if name not in before and (place, name) in self._positions]:
            own = self._positions[place, name]
            names = [other for other in stages if other != name]
            later = (n for n, other in enumerate(names) if self._positions.get((place, other), -1) > own)
            for other in (name, *names[next(later, len(names)) :]):
                # In place: what is written is the caller's own mapping, with whatever comments it keeps.
                stages[other] = stages.pop(other)  # to the end


def _names(lock: Path) -> set[str]:
    """The stages in a lock on disk, without parsing it."""
    if not lock.is_file():
        return set()
    return set(re.findall(r"^  ([^\s:]+):$", lock.read_text(encoding="utf-8"), re.MULTILINE))
