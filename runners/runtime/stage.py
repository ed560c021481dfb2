"""A stage at run time: parameters, paths of inputs and outputs, scratch folder, lock, record.

A runner module has `def run(stage: Stage) -> None`. It reads `stage.inputs`, writes in `stage.scratch` and passes finished outputs to
`stage.publish`, so that an output exists completely or not at all.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from qualm import __version__
from qualm.registry.parameters import to_lists
from qualm.registry.system import atomic, textfiles
from qualm.registry.system.atomic import create_folder
from qualm.registry.system.locks import ProcessLock
from qualm.registry.text import ProjectError
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stamp import memory_used, run_facts

LOCAL = Path(".qualm")
"""Local files of a checkout: scratch, locks, records of runs, the answer store. Ignored by git and DVC."""


ANSWERS = "answers"
"""Key of a stage's record: the origins of its answers (`qualm.runners.inference.keys.origins`)."""


class StageError(ProjectError):
    """A stage cannot go on; the message says why and what to do. Exit status 1."""


class PluginFailedError(StageError):
    """A plugin raised an unexpected exception (`__cause__`), whose traceback is logged."""


@dataclass
class Stage:
    """A stage at run time: its compiled JSON, the local settings, and counters."""

    key: str
    """SPEC/NAME, the argument of `python -m qualm.runners`."""
    spec: str
    name: str
    kind: str
    params: dict[str, Any]
    inputs: dict[str, Any]
    """Paths (or nested mappings of paths) from the project's root."""
    outputs: dict[str, Any]
    seed: int
    settings: Settings
    counters: dict[str, int] = field(default_factory=dict)
    """Counts of what was computed, reused, dropped..., printed at the end and recorded."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def scratch(self) -> Path:
        """Return the stage's folder for unfinished files, created if missing; it survives a kill."""
        path = LOCAL / "scratch" / self.spec / self.name
        create_folder(path)
        return path

    def count(self, **numbers: int) -> None:
        for name, n in numbers.items():
            self.counters[name] = self.counters.get(name, 0) + n

    def publish(self, output: Path, target: str | Path) -> None:
        """Move a finished file or folder to its output path in one rename, replacing the old one."""
        atomic.publish(output, Path(target))

    @property
    def provenance(self) -> dict[str, Any]:
        """Return the stage's key, digest of parameters, seed and library versions; no times."""
        return {"stage": self.key, "params_sha256": digest(self.params), "seed": self.seed, "libraries": dict(content_libraries())}


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


@cache
def content_libraries() -> dict[str, str]:
    """Return the installed version by name of Python and the libraries that shape content."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": platform.python_version()}
    models = ("torch", "transformers", "peft", "torchao", "bitsandbytes")
    for name in (*models, "numpy", "pyarrow", "pillow", "opencv-python-headless", "scikit-learn", "rouge-score"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def read_record(root: Path, spec: str, name: str) -> dict[str, Any]:
    """Return the record (JSON) of a stage's last run in this checkout; {} if none is readable."""
    try:
        record = json.loads(textfiles.read_text(root / LOCAL / "runs" / spec / f"{name}.json"))
    except (textfiles.TextFileError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def read_stage(key: str, settings: Settings) -> Stage:
    """Read stage SPEC/NAME from `specs/SPEC/stages/NAME.json`; StageError if unreadable."""
    spec, _, name = key.partition("/")
    path = Path("specs") / spec / "stages" / f"{name}.json"
    try:
        raw = json.loads(textfiles.read_text(path))
    except textfiles.NoFileError:
        raise StageError(f"{path}: not found; run `qualm compile` in the project's root and try again") from None
    except textfiles.TextFileError as error:
        raise StageError(f"{error}; `qualm compile` rewrites it") from None
    except (ValueError, RecursionError) as error:
        raise StageError(f"{path}: not JSON ({error}); `qualm compile` rewrites it") from None
    return make_stage(key, raw, settings)


def make_stage(key: str, raw: Mapping[str, Any], settings: Settings) -> Stage:
    """Create a stage from its key SPEC/NAME and its compiled JSON."""
    spec, _, name = key.partition("/")
    params = to_lists(raw["params"])
    return Stage(key, spec, name, raw["kind"], params, raw["inputs"], raw["outputs"], raw["seed"], replace(settings, spec=spec))


@contextmanager
def only_writer(stage: Stage) -> Iterator[None]:
    """Wait for other runs of the stage, with a notice, and hold its lock within this context."""
    lock = ProcessLock(LOCAL / "locks" / f"{stage.spec}.{stage.name}.lock")
    this_process = str(os.getpid())
    if not lock.acquire(this_process):
        holder = lock.holder or "unknown"
        print(f"{stage.key}: another run (process {holder}) is at this stage; waiting for it to end", file=sys.stderr, flush=True)
        lock.acquire(this_process, wait=True)
    try:
        for left in stage.scratch.glob(f"{atomic.REPLACED}*"):  # of a run killed while publishing
            shutil.rmtree(left)
        yield
    finally:
        lock.release()


def record_answer_origins(stage: Stage, origins: Mapping[str, Any]) -> None:
    """Write the origins of stored answers into the local record of a stage before it ends."""
    record = {**read_record(Path(), stage.spec, stage.name), ANSWERS: origins}
    atomic.write_text(LOCAL / "runs" / stage.spec / f"{stage.name}.json", json.dumps(record, indent=1, sort_keys=True) + "\n")


def write_record(stage: Stage, seconds: float) -> None:
    """Write the local record of a finished run: revision, hardware, memory, time, counters."""
    times = {"seconds": round(seconds, 3), "counters": stage.counters}
    record: Mapping[str, Any] = {**stage.provenance, **run_facts(), **memory_used(), **times, **stage.facts, "qualm": __version__}
    path = LOCAL / "runs" / stage.spec / f"{stage.name}.json"
    atomic.write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
