"""One stage at run time: its resolved parameters, its input and output paths, its scratch, its lock, its record.

A runner module is `def run(stage: Stage) -> None`. It reads `stage.inputs`, writes beneath `stage.scratch` and hands
every finished output to `stage.publish`, so that an output exists whole or not at all, whatever is killed and when.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.settings import Settings

LOCAL = Path(".qualm")
"""Everything local to this checkout: scratch, locks, run records, the sample-level store. Ignored by git and DVC."""


class StageError(Exception):
    """A stage that cannot go on: what was expected, what came, what to do. Printed as one message, exit 1."""


@dataclass
class Stage:
    """What `specs/SPEC/stages/NAME.json` says, plus this run's settings and counters."""

    key: str
    """SPEC/NAME, the argument of `python -m runners`."""
    spec: str
    name: str
    kind: str
    """The runner module: data, finetune, infer, judge, estimate, conformal, score, report."""
    params: dict[str, Any]
    inputs: dict[str, Any]
    """Paths (or nested mappings of paths) from the project's root."""
    outputs: dict[str, Any]
    seed: int
    settings: Settings
    counters: dict[str, int] = field(default_factory=dict)
    """What was computed, taken from the store, dropped...: printed at the end and kept in the run record."""

    @property
    def scratch(self) -> Path:
        """A folder of this stage's own; what a killed run left there is the next run's to use or delete."""
        path = LOCAL / "scratch" / self.spec / self.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def count(self, **numbers: int) -> None:
        for name, n in numbers.items():
            self.counters[name] = self.counters.get(name, 0) + n

    def publish(self, made: Path, target: str | Path) -> None:
        """Move a finished file or folder from scratch to its place in one rename."""
        target = Path(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            trash = self.scratch / f".old-{os.getpid()}-{target.name}"
            target.replace(trash)
            made.replace(target)
            shutil.rmtree(trash)
        else:
            made.replace(target)

    @property
    def provenance(self) -> dict[str, Any]:
        """The facts every run of this very stage shares; they go into the tables. Times and hosts do not."""
        return {"stage": self.key, "params_sha256": digest(self.params), "seed": self.seed, "libraries": libraries()}


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def libraries() -> dict[str, str]:
    """Versions of the libraries that shape content, read without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("torch", "transformers", "numpy", "pyarrow", "pillow", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_stage(key: str, settings: Settings) -> Stage:
    """The stage whose resolved parameters lie in `specs/SPEC/stages/NAME.json`."""
    spec, _, name = key.partition("/")
    path = Path("specs") / spec / "stages" / f"{name}.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StageError(f"{path}: not found; run `qualm compile` in the project's root and try again") from None
    except ValueError as error:
        raise StageError(f"{path}: not JSON ({error}); `qualm compile` writes it anew") from None
    return Stage(key, spec, name, raw["kind"], raw["params"], raw["inputs"], raw["outputs"], raw["seed"], settings)


@contextmanager
def only_writer(stage: Stage) -> Iterator[None]:
    """Hold the stage's lock: a second run of it waits for the first to end or die. Never two writers."""
    path = LOCAL / "locks" / f"{stage.spec}.{stage.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{stage.key}: another run holds {path}; waiting for it to end", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def die_with_parent() -> None:
    """End this process when the `dvc` that started it is gone, even by kill -9, so that no orphan keeps writing."""
    launcher = _launcher()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if launcher <= 1:
        return

    def watch() -> None:
        while True:
            try:
                os.kill(launcher, 0)
            except ProcessLookupError:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.2)

    threading.Thread(target=watch, daemon=True, name="die-with-parent").start()


def _launcher() -> int:
    """The process whose death must be ours: the parent, or the one above a shell that stands between."""
    parent = os.getppid()
    try:
        name = Path(f"/proc/{parent}/comm").read_text().strip()
        if name in {"sh", "bash", "dash", "zsh", "fish"}:
            return int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, ValueError, IndexError):
        return parent
    return parent


def write_record(stage: Stage, seconds: float) -> None:
    """What this run did and where: git revision, hardware, wall time, counters. Local, never an input of anything."""
    record: Mapping[str, Any] = {
        **stage.provenance,
        "git": _git("rev-parse", "HEAD"),
        "git_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "seconds": round(seconds, 3),
        "counters": stage.counters,
    }
    path = LOCAL / "runs" / stage.spec / f"{stage.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor()
    return platform.processor()
