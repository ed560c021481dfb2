"""One stage at run time: its resolved parameters, its input and output paths, its scratch, its lock, its record.

A runner module is `def run(stage: Stage) -> None`. It reads `stage.inputs`, writes beneath `stage.scratch` and hands
every finished output to `stage.publish`, so that an output exists whole or not at all, whatever is killed and when.
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
from pathlib import Path
from typing import Any

from qualm import __version__
from qualm.registry.formats import atomic, textfiles
from qualm.registry.formats.atomic import made_folder
from qualm.registry.formats.locks import ProcessLock
from qualm.runners.runtime.parameters import to_lists
from qualm.runners.runtime.settings import Settings
from qualm.runners.runtime.stamp import here, used

LOCAL = Path(".qualm")
"""Everything local to this checkout: scratch, locks, run records, the sample-level store. Ignored by git and DVC."""


ANSWERS = "answers"
"""In the record of a stage that asked a model: whose answers it got (`qualm.runners.inference.origins`)."""


class StageError(Exception):
    """A stage that cannot go on: what was expected, what came, what to do. Printed as one message, exit 1."""


class PluginFailedError(StageError):
    """An unexpected exception of a plugin, which is the cause (`__cause__`); its traceback is logged."""


@dataclass
class Stage:
    """What `specs/SPEC/stages/NAME.json` says, plus this run's settings and counters."""

    key: str
    """SPEC/NAME, the argument of `python -m qualm.runners`."""
    spec: str
    name: str
    kind: str
    """What `qualm.runners.contracts.stages` knows of it."""
    params: dict[str, Any]
    inputs: dict[str, Any]
    """Paths (or nested mappings of paths) from the project's root."""
    outputs: dict[str, Any]
    seed: int
    settings: Settings
    counters: dict[str, int] = field(default_factory=dict)
    """What was computed, taken from the store, dropped...: printed at the end and kept in the run record."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else the run record shall say of this run."""

    @property
    def scratch(self) -> Path:
        """A folder of this stage's own; what a killed run left there is the next run's to use or delete."""
        path = LOCAL / "scratch" / self.spec / self.name
        made_folder(path)
        return path

    def count(self, **numbers: int) -> None:
        for name, n in numbers.items():
            self.counters[name] = self.counters.get(name, 0) + n

    def publish(self, output: Path, target: str | Path) -> None:
        """Move a finished file or folder from scratch to its place in one rename."""
        atomic.publish(output, Path(target))

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

    versions = {"python": platform.python_version()}
    models = ("torch", "transformers", "peft", "torchao", "bitsandbytes")
    for name in (*models, "numpy", "pyarrow", "pillow", "opencv-python-headless", "scikit-learn", "rouge-score"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def read_record(root: Path, spec: str, name: str) -> dict[str, Any]:
    """What a stage's last run in this checkout left; nothing where there is none."""
    try:
        record = json.loads(textfiles.read_text(root / LOCAL / "runs" / spec / f"{name}.json"))
    except (textfiles.TextFileError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def read_stage(key: str, settings: Settings) -> Stage:
    """The stage whose resolved parameters lie in `specs/SPEC/stages/NAME.json`."""
    spec, _, name = key.partition("/")
    path = Path("specs") / spec / "stages" / f"{name}.json"
    try:
        raw = json.loads(textfiles.read_text(path))
    except textfiles.NoFileError:
        raise StageError(f"{path}: not found; run `qualm compile` in the project's root and try again") from None
    except textfiles.TextFileError as error:
        raise StageError(f"{error}; `qualm compile` writes it anew") from None
    except (ValueError, RecursionError) as error:
        raise StageError(f"{path}: not JSON ({error}); `qualm compile` writes it anew") from None
    return stage_of(key, raw, settings)


def stage_of(key: str, raw: Mapping[str, Any], settings: Settings) -> Stage:
    """The stage that a compiled JSON describes."""
    spec, _, name = key.partition("/")
    own = replace(settings, spec=spec)
    return Stage(key, spec, name, raw["kind"], to_lists(raw["params"]), raw["inputs"], raw["outputs"], raw["seed"], own)


@contextmanager
def only_writer(stage: Stage) -> Iterator[None]:
    """Hold the stage's lock: a second run of it waits for the first to end or die. Never two writers.

    A process that it forks and that outlives it does not keep the lock.
    """
    lock = ProcessLock(LOCAL / "locks" / f"{stage.spec}.{stage.name}.lock")
    this_process = str(os.getpid())
    if not lock.acquire(this_process):
        holder = lock.holder or "unknown"
        print(f"{stage.key}: another run (process {holder}) is at this stage; waiting for it to end", file=sys.stderr, flush=True)
        lock.acquire(this_process, wait=True)
    try:
        for left in stage.scratch.glob(f"{atomic.REPLACED}*"):  # of a run that was killed while publishing
            shutil.rmtree(left)
        yield
    finally:
        lock.release()


def write_answers(stage: Stage, answers: Mapping[str, Any]) -> None:
    """Note in the record of a stage's last run which answers the store holds, after a run that did not finish."""
    record = {**read_record(Path(), stage.spec, stage.name), ANSWERS: answers}
    atomic.write_text(LOCAL / "runs" / stage.spec / f"{stage.name}.json", json.dumps(record, indent=1, sort_keys=True) + "\n")


def write_record(stage: Stage, seconds: float) -> None:
    """What this run did and where: git revision, hardware, peak memory, wall time, counters. Local, never an input of anything."""
    times = {"seconds": round(seconds, 3), "counters": stage.counters}
    record: Mapping[str, Any] = {**stage.provenance, **here(), **used(), **times, **stage.facts, "qualm": __version__}
    path = LOCAL / "runs" / stage.spec / f"{stage.name}.json"
    atomic.write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
