"""Which rooms does one stage's work go through, and does it go back and forth between any two?

    python -m tests.bench.walk STAGE_KEY [STAGE_KEY ...]        for example quickstart/data-scenes quickstart/score
    python -m tests.bench.walk SPEC                             from the spec's YAML to the text of dvc.yaml

Runs each stage as `dvc repro` would (its inputs must be there: run the spec first) with a profiler that notes every call from one folder of
the project into another. Prints the folders in the order in which they are first entered, how many modules had code running, and the
pairs of folders that call each other in both directions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("compiler", "registry", "runners")


class Walk:
    """Calls from room to room, in order of their first time."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.calls: dict[tuple[str, str], int] = {}
        self._rooms: dict[str, str | None] = {}

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """For `sys.setprofile`: notes the call if the nearest caller of ours stands in another room."""
        if event != "call" or frame.f_code.co_name == "<module>" or (room := self._room(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and self._room(caller) is None:
            caller = caller.f_back
        if caller is None or caller.f_code.co_name == "<module>":
            return
        of_caller = self._room(caller)
        if of_caller is not None and of_caller != room:
            self.calls[of_caller, room] = self.calls.get((of_caller, room), 0) + 1

    @property
    def rooms(self) -> list[str]:
        return list(dict.fromkeys(room for call in self.calls for room in call))

    @property
    def both_ways(self) -> list[tuple[str, str]]:
        return sorted((a, b) for a, b in self.calls if a < b and (b, a) in self.calls)

    def _room(self, frame: FrameType) -> str | None:
        file = frame.f_code.co_filename
        if file not in self._rooms:
            self._rooms[file] = room = room_of(file)
            if room is not None:
                self.modules.add(file)
        return self._rooms[file]


def room_of(file: str) -> str | None:
    """Return `runners/scoring` for a file in it, `runners/plugins/metrics` for a plugin; None for entry points and others' code."""
    path = Path(os.path.realpath(file))
    if not path.is_relative_to(ROOT) or path.name == "__main__.py":
        return None
    folders = path.relative_to(ROOT).parts[:-1]
    if not folders or folders[0] not in PACKAGES:
        return None
    return "/".join(folders[: 3 if folders[:2] == ("runners", "plugins") else 2])


def walk(run: Callable[[], Any]) -> Walk:
    """Run something and note where it goes."""
    noted = Walk()
    sys.setprofile(noted.profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return noted


def compile_spec(name: str) -> None:
    """Validate, resolve and plan a spec, and make the text of its pipeline."""
    from qualm.compiler.plan.emit import compiled_texts
    from qualm.compiler.plan.make import make_plan
    from qualm.compiler.spec.resolve import read_run_wide, resolve_file

    run_wide = read_run_wide(ROOT)
    compiled_texts(make_plan(resolve_file(ROOT / "specs" / f"{name}.yaml", ROOT, run_wide), ROOT), run_wide.default)


def run_stage(key: str) -> None:
    from qualm.runners.__main__ import main

    if status := main([key]):
        sys.exit(status)


def _print(key: str) -> None:
    noted = walk(lambda: run_stage(key) if "/" in key else compile_spec(key))
    kinds = sum(room.startswith("runners/plugins/") for room in noted.rooms)
    print(f"{key}: {len(noted.rooms) - kinds} rooms, {kinds} kinds of plugins, {len(noted.modules)} modules, ", end="")
    print(f"{len(noted.both_ways)} pairs of rooms that call each other")
    print("  " + " -> ".join(noted.rooms))
    for a, b in noted.both_ways:
        print(f"  both ways: {a} ({noted.calls[a, b]:,} calls) and {b} ({noted.calls[b, a]:,})")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        _print(sys.argv[1])
    elif len(sys.argv) > 2:
        for each in sys.argv[1:]:  # a process for each: a stage seeds and ends its own
            subprocess.run([sys.executable, "-m", "tests.bench.walk", each], check=True)
    else:
        sys.exit(__doc__)
