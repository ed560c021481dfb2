"""`qualm run`: compile, say what will happen, have DVC do it with a line per stage, point at the report."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from rich.markup import escape

from qualm.compiler.forecast.extras import advice, missing_extras
from qualm.compiler.forecast.needs import ACTIVE
from qualm.compiler.forecast.rebuilds import forecast_run
from qualm.compiler.plan.emit import pipeline_path, write
from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.checkout import Project
from qualm.compiler.running.cluster import check_address, note_memory, reached
from qualm.compiler.running.follow import Follower
from qualm.compiler.running.reproduce import CLUSTER, FORECAST, JOBS, LOCKED, LOG
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.terminal.views import console
from qualm.registry.diagnostics.failures import TRACEBACK
from qualm.registry.dvc.config import cache_folder
from qualm.registry.formats.locks import ProcessLock
from qualm.registry.machine import WINDOWS
from qualm.registry.terminal.console import Console
from qualm.registry.text import human
from qualm.runners.runtime import status
from qualm.runners.runtime.run_times import write_times
from qualm.runners.runtime.stamp import write_stamp

INTERRUPTED = 130
RUN_LOCK = Path(".qualm/locks/run.lock")
"""Held by the only `qualm run` of a project, from its root."""
LITTLE = 1 << 20
"""Bytes that are left on a disk that is full: no table goes into so little."""


def run_pipeline(
    project: Project, spec: str | None, arguments: list[str], verbose: bool = False, jobs: int | None = None, on: str | None = None
) -> int:
    """Rebuild a spec's results. Returns 0, 1 where something is missing or a stage failed, or 130 where a person stopped it.

    Args:
        project: the checkout.
        spec: name or path; the default one if None.
        arguments: for `dvc repro`.
        verbose: show what DVC itself says instead of a line per stage.
        jobs: stages that run at the same time; the setting `jobs` if None.
        on: the Ray cluster that answers questions to models; the setting `cluster` if None.
    """
    check_address(on)
    if {"-i", "--interactive"} & {*arguments}:
        raise ProjectError("`qualm run` asks nothing; `dvc repro --interactive` asks before every stage")
    with only_run(project.root) as other:
        if other is not None:
            console().print(f"[red]{escape(other)}[/]")
            return 1
        dry = "--dry" in arguments
        settings = project.settings
        how = (1, "") if dry else (jobs or settings.jobs, settings.cluster if on is None else on)
        return _run(project, spec, arguments, verbose or dry, *how)


def _run(project: Project, spec: str | None, arguments: list[str], verbose: bool, jobs: int, on: str) -> int:
    plan = project.plan(spec)
    default = project.run_wide.default
    before = project.before(plan)
    write(project.root, [*before, plan], default)
    forecasts, settled = forecast_run(plan, project.root, default, before)
    counts = Counter(f.action for f in forecasts)
    out = console()
    out.print(
        f"[bold]{plan.spec}[/]: {len(forecasts)} stages, {counts['run']} to run, {counts['perhaps']} perhaps, "
        f"{counts['restore']} to restore, {counts['unchanged']} up to date"
    )
    for lack in dict.fromkeys(str(r) for f in forecasts for r in f.reasons if r.kind == "missing"):
        out.print(f"[red]{escape(lack)}[/]")
    waiting = {f.stage for f in forecasts if f.action in ACTIVE}
    if lacking := advice(missing_extras(stage for stage in plan.stages if stage.name in waiting)):
        out.print(f"[red]{escape(lacking)}[/]")
        return 1
    if counts["blocked"]:
        return 1
    start = time.monotonic()
    stages = sum(len(p.stages) for p in [*before, plan])
    if arguments or verbose:  # arguments such as --force may want work where there is none
        settled = frozenset()
    if len(settled) == stages:  # to start DVC would take longer than all the rest
        code = 0
    else:
        if on:
            note_memory(plan, forecasts, project.root, project.settings)
        with reached(on) as cluster:
            ahead = [f"{plan.spec}/{f.stage}" for f in forecasts if f.action == "run"][:1]
            command = ["--pull", pipeline_path(plan.spec, default), *arguments]
            code = reproduce(project, command, stages, verbose, jobs, cluster, settled, ahead)
    report = project.root / "results" / plan.spec / "report.html"
    if code == 0:
        write_stamp(plan.spec, project.root)
        write_times(plan.spec, project.root)
        out.print(f"[bold]{plan.spec}[/] is up to date after {time.monotonic() - start:.0f} s; `qualm show {plan.spec}` shows the scores")
        _warn(project, plan, out)
        if report.is_file():
            out.print(f"report: {report.relative_to(project.root)}")
    elif code == INTERRUPTED:
        out.print("[red]interrupted[/]; what was done is kept: run it again to go on")
    elif code != LOCKED:
        for place in no_room(project.root):
            out.print(f"[red]the disk is full[/]: {escape(place)}; make room first")
        out.print("[red]stopped[/]; what was done is kept: run it again to go on (-v shows what DVC says)")
    return code if code in (0, INTERRUPTED) else 1


def no_room(root: Path) -> list[str]:
    """Where a run writes, and next to nothing more can be written: DVC blames the kind of links, or a file that it could not make."""
    disks = {place.stat().st_dev: place for place in (cache_folder(root), root) if place.is_dir()}
    left = {place: shutil.disk_usage(place).free for place in disks.values()}
    return [f"{place} has {human(free)} left" for place, free in left.items() if free < LITTLE]


def _warn(project: Project, plan: Plan, out: Console) -> None:
    """What a glance at the scores would miss."""
    from qualm.compiler.results.scores import read_scores
    from qualm.runners.scoring.missing.score_warnings import ALL

    for stage in plan.writers("scores"):
        path = project.root / stage.outputs["scores"]
        if path.is_file() and (rows := read_scores(path, ALL, with_reason=True)):
            from qualm.compiler.results.show import show_warnings

            show_warnings(rows, out, intervals=False)


def reproduce(
    project: Project,
    arguments: list[str],
    stages: int,
    verbose: bool,
    jobs: int = 1,
    cluster: str = "",
    settled: Collection[str] = (),
    ahead: Sequence[str] = (),
) -> int:
    """`dvc repro ARGUMENTS` with a line for each of so many stages; its exit status, 130 where it was stopped.

    Up to `jobs` stages that do not depend on each other run at the same time. `cluster`: see `qualm.runners.runtime.settings`. DVC is not
    asked about the `settled` ones, unless something of theirs turns out to be damaged; keys of what runs first are `ahead`.
    """
    logs = project.root / ".qualm" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    events, words, log, known = logs / "run.events", logs / "run.stages.log", logs / "run.dvc.log", logs / "run.forecast.json"
    for file in (events, words, log):
        file.write_bytes(b"")
    known.write_text(json.dumps({"settled": sorted(settled), "ahead": ahead}), encoding="utf-8", newline="\n")
    environment = {
        **project.environment,
        JOBS: str(jobs),
        CLUSTER: cluster,
        FORECAST: str(known),
        status.FILE: str(events),
        **({TRACEBACK: "1"} if verbose else {LOG: str(log)}),
    }
    command = [sys.executable, "-m", "qualm.compiler.running.reproduce", *arguments]
    with words.open("ab") as stream, Follower(console(), events, words, stages, quiet=verbose) as follower:
        outlet: IO[bytes] | None = None if verbose else stream
        # A process of its own: DVC is patched there, and a second Ctrl-C can kill it without ending us.
        process = subprocess.Popen(
            command, cwd=project.root, env=environment, stdin=subprocess.DEVNULL, stdout=outlet, stderr=outlet and subprocess.STDOUT
        )
        code = _wait(process, follower)
    if code == LOCKED:
        console().print(f"[red]{escape(_other_dvc(project.root, events))}[/]")
    return code


def _wait(process: subprocess.Popen[bytes], follower: Follower) -> int:
    """Follow a run to its end, through Ctrl-C: the terminal sends that to DVC and its stage too, and they end in order.

    SIGINT from elsewhere (`kill -INT`, a CI job that is cancelled) comes to this process alone, so it is sent on. A second one, and
    SIGTERM or SIGHUP at once, end DVC; its stage ends with it (`qualm.runners.runtime.die_with_parent`).
    """
    interrupts = 0

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal interrupts
        del frame
        interrupts += 1
        if signum != signal.SIGINT or interrupts > 1:
            process.kill()
        elif not _in_foreground():
            _interrupt(process.pid)

    ends = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    heeded = [s for s in ends if signal.getsignal(s) != signal.SIG_IGN]  # nohup stays nohup
    previous = {signum: signal.signal(signum, stop) for signum in heeded}
    try:
        while process.poll() is None:
            follower.update()
            time.sleep(0.1)
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)
    follower.update()
    return INTERRUPTED if interrupts else process.returncode


def _in_foreground() -> bool:
    """Return whether Ctrl-C in the terminal reaches this process and its children; True on Windows."""
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
    """Send SIGINT to a process and all below it, as a terminal does."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGINT)


@contextmanager
def only_run(root: Path) -> Iterator[str | None]:
    """Hold a project's run lock; yield None, or a message that names the run which holds it."""
    lock = ProcessLock(root / RUN_LOCK)
    if not lock.acquire(f"process {os.getpid()}, since {time.strftime('%H:%M:%S')}: {shlex.join(['qualm', *sys.argv[1:]])}"):
        yield _busy(f"another run is at work in this project ({lock.holder or 'it has just begun'})")
        return
    try:
        yield None
    finally:
        lock.release()


def _other_dvc(root: Path, events: Path) -> str:
    """Who keeps DVC from working here, as far as it knows."""
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    message = "".join(e["error"] for e in lines if e["event"] == "locked")
    if match := re.search(r"\(PID (\d+)\): (.+)", message):  # it is at a stage
        return _busy(f"another DVC command is at work in this project (process {match[1]}: {match[2]})")
    lock = root / ".dvc" / "tmp" / "lock"
    holder = lock.read_text(encoding="utf-8").strip() if lock.is_file() else ""
    return _busy(f"another DVC command is at work in this project (process {holder or 'unknown'})")


def _busy(who: str) -> str:
    return f"{who}; wait until it has ended, or stop it, and run this again"
