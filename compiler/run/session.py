"""The DVC processes of one `qualm run`: started, shown, ended by signals, and repeated after damage was found."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from qualm.compiler.plan.order import longest_chain_first
from qualm.compiler.plan.plan import PlannedStage
from qualm.compiler.run import dvc
from qualm.compiler.run.follow import Follower, Tail
from qualm.registry import SPEC_STAGE
from qualm.registry.machine import WINDOWS, nvidia_cards
from qualm.registry.system.console import Console
from qualm.registry.system.dvc_files import RecordedOutput, cache_folder, find_records, has_default_remote
from qualm.registry.system.dvc_objects import hash_path, is_damaged, set_aside
from qualm.runners.runtime import status
from qualm.runners.runtime.journal import Journal

POLL_SECONDS = 0.1
MAX_ATTEMPTS = 5
"""Maximum starts of DVC. Each one after the first needs new damage or a failed `--pull`."""


@dataclass(frozen=True)
class ParallelStages:
    """Stages to run in parallel, the number of jobs, and the GPUs to share."""

    stages: Mapping[str, PlannedStage]
    """Stages by their DVC name, such as `specs/mine/dvc.yaml:score`."""
    jobs: int
    gpus: Sequence[str] = ()
    """GPUs as in CUDA_VISIBLE_DEVICES, one per stage; empty lets every stage see all."""

    def dependencies(self) -> dict[str, set[str]]:
        """Return {stage: stages that must end before it}, stage `spec` included."""
        makers = {out: name for name, stage in self.stages.items() for out in stage.outs}
        specs = {name: f"{name.rpartition(':')[0]}:{SPEC_STAGE}" for name in self.stages}
        before = {name: {specs[name], *(makers[path] for path in stage.deps if path in makers)} for name, stage in self.stages.items()}
        return {**{spec: set() for spec in specs.values()}, **before}


@dataclass
class _Process:
    popen: subprocess.Popen[bytes]
    log: Tail
    reader: dvc.LogReader = field(default_factory=dvc.LogReader)
    stage: str = ""
    output: IO[bytes] | None = None
    gpu: str = ""


class Session:
    """Context manager for the DVC processes of one `qualm run`; handles signals."""

    def __init__(
        self, root: Path, environment: Mapping[str, str], console: Console, outputs: Mapping[str, Sequence[str]], verbose: bool
    ) -> None:
        """Empty the log files and prepare the environment of DVC's processes.

        Args:
            outputs: outputs of each stage, by its name in DVC's messages (`score`, `specs/mine/dvc.yaml:score`).
            verbose: show DVC's messages instead of a line per stage.
        """
        self._root, self._console, self._outputs, self._verbose = root, console, outputs, verbose
        self._logs = root / ".qualm" / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._events, self._output = self._logs / "run.events", self._logs / "run.stages.log"
        for file in (self._events, self._output, self._logs / "run.dvc.log"):
            file.write_bytes(b"")
        self._journal = Journal(self._events, durable=False)
        self._environment = dvc.environment(root, {**environment, status.FILE: str(self._events)})
        self._follower = Follower(console, self._events, self._output, len(outputs), quiet=verbose)
        self._found = Tail(self._events)
        self._processes: list[_Process] = []
        self._restored: list[str] = []
        self._signals = 0
        self.is_locked = False
        """True if another DVC is at work in the project."""

    def __enter__(self) -> Session:
        self._follower.__enter__()
        self._handlers = {number: signal.signal(number, self._stop) for number in _handled_signals()}
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.popen.kill()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._follower.__exit__()

    @property
    def is_interrupted(self) -> bool:
        """Return whether a signal asked the run to end."""
        return self._signals > 0

    def fetch(self, paths: Sequence[str]) -> int:
        """Pull the data at `paths`, or check out without a remote; return DVC's exit status.

        DVC is given PATH.dvc for each. If it succeeds, every path is reported as fetched.
        """
        files = [f"{path}.dvc" for path in paths]
        command = "pull" if has_default_remote(self._root) else "checkout"
        code = self._wait(self._start([command, *files]))
        for path in paths if code == 0 else ():
            self._tell({"event": "begin", "stage": f"{path}.dvc"})
            self._tell({"event": "end", "stage": f"{path}.dvc", "how": "fetched"})
        return code

    def force(self, stages: Sequence[str]) -> int:
        """Run exactly these stages, even if up to date; return DVC's exit status."""
        return self._wait(self._start(["repro", "--force", "--single-item", *stages]))

    def reproduce(self, pipeline: str, options: Sequence[str], parallel: ParallelStages | None = None, is_pulling: bool = True) -> int:
        """Run `dvc repro`, again after damage or a failed pull; return the exit status.

        Args:
            pipeline: path of the spec's dvc.yaml.
            options: command-line options of `dvc repro`.
            parallel: stages to run first, several at a time.
            is_pulling: pull outputs from the default remote, if there is one, instead of recomputing them.
        """
        pull = ["--pull"] if is_pulling else []
        for _ in range(MAX_ATTEMPTS):
            self._set_damaged_lists_aside()
            self._found_damage()
            code, has_failed_command = 0, False
            if parallel is not None:
                code, has_failed_command = self._run_parallel(parallel, [*pull, *options])
            if code == 0:
                # After parallel stages DVC runs what remains, and nothing twice.
                remaining_options = [option for option in options if option not in ("-f", "--force")] if parallel else options
                process = self._start(["repro", *pull, pipeline, *remaining_options])
                code = self._wait(process)
                has_failed_command = process.reader.has_failed_command
            if self.is_interrupted or self.is_locked:
                break
            if self._set_damaged_aside():
                continue
            if code != 0 and pull and not has_failed_command:
                # DVC fails where neither cache nor remote has what its run cache names; without `--pull` it runs the stage.
                pull = []
                self._remove_dangling_links()
                continue
            break
        return code

    def _run_parallel(self, parallel: ParallelStages, options: list[str]) -> tuple[int, bool]:
        """Run stages in parallel; return (first failed status or 0, True if a command failed)."""
        before = parallel.dependencies()
        waiting = longest_chain_first(list(before), before)
        keep_going = bool({"-k", "--keep-going"} & {*options})
        users = dict.fromkeys(parallel.gpus, 0)
        ended, failed = set[str](), list[_Process]()
        while True:
            ready = [stage for stage in waiting if before[stage] <= ended]
            if not self.is_interrupted and (not failed or keep_going):
                for stage in ready[: parallel.jobs - len(self._processes)]:
                    waiting.remove(stage)
                    gpu = min(users, key=lambda name: users[name], default="")
                    users[gpu] = users.get(gpu, 0) + 1
                    self._start(["--wait-for-lock", "repro", "--single-item", *options, stage], stage, gpu)
            if not self._processes:
                break
            for process in self._update():
                users[process.gpu] -= 1
                if process.popen.returncode == 0:
                    ended.add(process.stage)
                else:
                    failed.append(process)
        codes = [process.popen.returncode for process in failed]
        return (codes[0] if codes else 0), any(process.reader.has_failed_command for process in failed)

    def _start(self, arguments: Sequence[str], stage: str = "", gpu: str = "") -> _Process:
        """Start a DVC process that logs to files, for one stage or a whole pipeline; return it.

        Args:
            stage: address of the stage that it runs; "" for a whole pipeline.
            gpu: the only GPU that the process may use; empty = all.
        """
        name = re.sub(r"[^A-Za-z0-9_-]", "_", stage)
        log = self._logs / (f"stages/{name}.dvc.log" if stage else "run.dvc.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        output = None
        has_name = bool(stage) and stage.rpartition(":")[2] != SPEC_STAGE
        if not self._verbose:
            place = self._logs / "stages" / f"{name}.log" if has_name else self._output
            output = place.open("wb" if has_name else "ab")
        if has_name and output is not None:
            address = stage.removeprefix("dvc.yaml:")
            self._tell({"event": "output", "by": address, "stage": address, "path": output.name})
        environment = {**self._environment, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})}
        process = _Process(dvc.start(self._root, arguments, environment, log, output), Tail(log), stage=stage, output=output, gpu=gpu)
        self._processes.append(process)
        return process

    def _wait(self, process: _Process) -> int:
        while process in self._processes:
            self._update()
        return process.popen.returncode

    def _update(self) -> list[_Process]:
        """Show new events and output; return the processes that ended since the last call."""
        ended = [process for process in self._processes if process.popen.poll() is not None]
        for process in self._processes:
            for line in process.log.lines():
                if self._verbose:
                    self._console.print(line, end="", markup=False, highlight=False, soft_wrap=True)
                for event in process.reader.read(line):
                    self._tell(event)
        for process in ended:
            for event in process.reader.end_stage(process.popen.returncode):
                self._tell(event)
            if process.output is not None:
                process.output.close()
            self.is_locked |= process.reader.is_locked
            self._processes.remove(process)
        self._follower.update()
        if not ended:
            time.sleep(POLL_SECONDS)
        return ended

    def _tell(self, event: Mapping[str, str]) -> None:
        stage = event.get("stage", "")
        if stage.rpartition(":")[2] == SPEC_STAGE:
            return  # that stage prints its errors itself
        if event["event"] == "end" and event["how"] == "fetched" and not stage.endswith(".dvc"):
            event = {**event, "how": "restored"}
        if event.get("how") in ("restored", "fetched"):
            self._restored.append(stage)
        self._journal.append(json.dumps(event).encode() + b"\n")

    def _set_damaged_lists_aside(self) -> None:
        """Move damaged folder listings out of DVC's cache, and tell."""
        for file in sorted((cache_folder(self._root) / "files" / "md5").glob("??/*.dir")):
            md5 = file.parent.name + file.name
            if is_damaged(file, md5):
                aside = set_aside(self._root, RecordedOutput(md5, md5)).relative_to(self._root).as_posix()
                self._tell({"event": "damaged", "path": str(file), "aside": aside})

    def _found_damage(self) -> bool:
        return any(json.loads(line)["event"] == "damaged" for line in [*self._found.lines()])

    def _set_damaged_aside(self) -> bool:
        """Move damaged restored files away; return whether anything was damaged."""
        paths = [out for stage in self._restored for out in self._outputs.get(stage, [stage.removesuffix(".dvc")])]
        self._restored.clear()
        damaged = [r for r in find_records(self._root, paths) if hash_path(self._root, r.path) not in (None, r.md5)]
        for record in damaged:
            aside = set_aside(self._root, record).relative_to(self._root).as_posix()
            self._tell({"event": "damaged", "path": record.path, "aside": aside})
        self._follower.update()
        return self._found_damage()

    def _remove_dangling_links(self) -> None:
        """Delete links to nothing among the outputs, left by a failed pull."""
        for path in (self._root / out for outs in self._outputs.values() for out in outs):
            for link in (path, *path.rglob("*")):
                if link.is_symlink() and not link.exists():
                    link.unlink()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: first Ctrl-C lets DVC end, any other kills it.

        SIGINT from elsewhere (`kill -INT`, a cancelled CI job) comes to this process alone, so it is sent on.
        """
        del frame
        self._signals += 1
        for process in self._processes:
            if number != signal.SIGINT or self._signals > 1:
                process.popen.kill()
            elif not _is_in_foreground():
                _interrupt(process.popen.pid)


def _handled_signals() -> Iterator[int]:
    """Yield the numbers of the signals that end a run, without those that are ignored."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            yield number


def _is_in_foreground() -> bool:
    """Return whether Ctrl-C in the terminal reaches this process group."""
    if WINDOWS:
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _interrupt(pid: int) -> None:
    """Send SIGINT to a process and all its descendants; ignore those that ended."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGINT)


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES; [] if none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = (name.strip() for name in visible.split(",") if name.strip())
        return list(itertools.takewhile(lambda name: not name.startswith("-"), names))  # as CUDA reads it: nothing from -1 on
    return [str(number) for number in range(nvidia_cards())]
