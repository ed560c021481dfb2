"""`qualm run`: compile, forecast, let DVC run with a line per stage, point at the report."""

import json
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from qualm.compiler.plan.emit import MARKER, pipeline_path, stage_address, write
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.checkout import Project
from qualm.compiler.project.extras import advice, missing_extras
from qualm.compiler.project.rebuilds import ACTIVE, forecast
from qualm.compiler.project.views import console
from qualm.compiler.run import dvc
from qualm.compiler.run.cluster import check_address, open_cluster, save_memory_estimates
from qualm.compiler.run.recomputation import AnswerSelection, Recomputation
from qualm.compiler.run.session import ParallelStages, Session, visible_gpus
from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.system import atomic
from qualm.registry.system.console import Console
from qualm.registry.system.dvc_files import cache_folder
from qualm.registry.system.failures import TRACEBACK
from qualm.registry.system.locks import ProcessLock
from qualm.registry.text import format_size
from qualm.runners.runtime.die_with_parent import lifeline_environment
from qualm.runners.runtime.run_times import write_times
from qualm.runners.runtime.stamp import write_stamp

INTERRUPTED = 130
RUN_LOCK = Path(".qualm/locks/run.lock")
"""Lock file of the only `qualm run` in a project, from its root."""
MIN_FREE_BYTES = 1 << 20
"""Free bytes below which a disk counts as full: no table fits."""
PARALLEL_OPTIONS = ("-f", "--force", "-k", "--keep-going")
"""Options of `dvc repro` that also work with parallel stages."""


def run_pipeline(
    project: Project,
    spec: str | None,
    arguments: list[str],
    verbose: bool = False,
    jobs: int | None = None,
    on: str | None = None,
    pull: bool = True,
    again: AnswerSelection | None = None,
) -> int:
    """Rebuild a spec's results; return 0, 1 on failure, or 130 if interrupted.

    Args:
        spec: name or path; the default one if None.
        arguments: for `dvc repro`.
        verbose: show what DVC itself says instead of a line per stage.
        jobs: stages that run at the same time; the setting `jobs` if None.
        on: the Ray cluster that answers questions to models; the setting `cluster` if None.
        pull: fetch results from the default remote instead of making them; data and models are fetched in any case.
        again: answers of a finished run to compute anew.
    """
    check_address(on)
    if {"-i", "--interactive"} & {*arguments}:
        raise ProjectError("`qualm run` asks nothing; `dvc repro --interactive` asks before every stage")
    with hold_run_lock(project.root) as other:
        if other is not None:
            console().print(f"[red]{escape(other)}[/]")
            return 1
        dry = "--dry" in arguments
        settings = project.settings
        how = (1, "") if dry else (jobs or settings.jobs, settings.cluster if on is None else on)
        return _run(project, spec, arguments, verbose or dry, *how, pull and not dry, None if dry else again)


def _run(
    project: Project, spec: str | None, arguments: list[str], verbose: bool, jobs: int, on: str, pull: bool, again: AnswerSelection | None
) -> int:
    plan = project.plan(spec)
    default = project.run_wide.default
    plans = [*project.before(plan), plan]
    out = console()
    for lock in (project.root / pipeline_path(p.spec, default).replace(".yaml", ".lock") for p in plans):
        if dvc.mend_lock(lock):
            place = lock.relative_to(project.root)
            out.print(say.LOCK_CUT_SHORT.format(lock=place))
    dvc.remove_stale_locks(project.root)
    write(project.root, plans, default)
    forecasts = forecast(plan, project.root, default, plans[:-1])
    recomputation = None if again is None else Recomputation(project, plan, forecasts, again)
    counts = Counter(f.action for f in forecasts)
    out.print(
        say.RUN_SUMMARY.format(
            spec=plan.spec,
            stages=say.count(len(forecasts), "stage"),
            to_run=counts["run"],
            perhaps=counts["perhaps"],
            to_restore=counts["restore"],
            unchanged=counts["unchanged"],
        )
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
    if recomputation:
        recomputation.announce(out)
    if on:
        save_memory_estimates(plan, forecasts, project.root, project.settings)
    with open_cluster(on) as cluster:
        environment = {
            **project.environment,
            **lifeline_environment(),
            "QUALM_JOBS": str(jobs),
            "QUALM_CLUSTER": cluster,
            **({TRACEBACK: "1"} if verbose else {}),
        }
        parallel = _parallel_stages(project, plans, jobs) if jobs > 1 and {*arguments} <= {*PARALLEL_OPTIONS} else None
        outputs = {stage_address(p.spec, stage.name, default): stage.outs for p in plans for stage in p.stages}
        with Session(project.root, environment, out, outputs, verbose) as session:
            missing = [] if "--dry" in arguments else _missing_data(project.root, plans)
            code = session.fetch(missing) if missing else 0
            if recomputation and code == 0:
                recomputation.forget()
                code = session.force([stage_address(plan.spec, stage, default) for stage in recomputation.stages])
            code = code or session.reproduce(pipeline_path(plan.spec, default), arguments, parallel, pull)
    write(project.root, plans, default)  # dvc.lock in the order of the pipeline, whichever stage ended first
    if session.is_interrupted:
        out.print(say.RUN_INTERRUPTED)
        return INTERRUPTED
    if session.is_locked:
        out.print(f"[red]{escape(_describe_lock_holder(project.root))}[/]")
        return 1
    if code != 0:
        for disk in full_disks(project.root):
            out.print(say.DISK_IS_FULL.format(disk=escape(disk)))
        out.print(say.RUN_STOPPED)
        return 1
    write_stamp(plan.spec, project.root)
    write_times(plan.spec, project.root)
    if recomputation:
        recomputation.report(out)
    out.print(say.RUN_UP_TO_DATE.format(spec=plan.spec, seconds=time.monotonic() - start))
    _warn(project, plan, out)
    report = project.root / "results" / plan.spec / "report.html"
    if report.is_file():
        out.print(say.REPORT_AT.format(file=report.relative_to(project.root)))
    return 0


def _parallel_stages(project: Project, plans: Sequence[Plan], jobs: int) -> ParallelStages:
    """Return the stages not up to date, and GPUs to share if each takes one; write markers."""
    default, settings, stages = project.run_wide.default, project.settings, dict[str, PlannedStage]()
    for number, plan in enumerate(plans):
        of = {f.stage: f.action for f in forecast(plan, project.root, default, plans[:number])}
        place = pipeline_path(plan.spec, default)
        stages |= {f"{place}:{stage.name}": stage for stage in plan.stages if of[stage.name] != "unchanged"}
        atomic.write_text(project.root / plan.marker, MARKER)  # the spec is compiled: no stage has to wait for the stage `spec`
    has_one_gpu = settings.devices == settings.nodes == 1 and not settings.launcher and settings.strategy == "auto"
    return ParallelStages(stages, jobs, visible_gpus() if has_one_gpu else ())


def _missing_data(root: Path, plans: Sequence[Plan]) -> list[str]:
    paths = sorted({path for plan in plans for stage in plan.stages for path in stage.deps})
    return [path for path in paths if not (root / path).exists() and (root / f"{path}.dvc").is_file()]


def full_disks(root: Path) -> list[str]:
    """Return a message per disk of project and cache with under MIN_FREE_BYTES left, or []."""
    disks = {place.stat().st_dev: place for place in (cache_folder(root), root) if place.is_dir()}
    left = {place: shutil.disk_usage(place).free for place in disks.values()}
    return [say.SPACE_LEFT.format(folder=place, size=format_size(free)) for place, free in left.items() if free < MIN_FREE_BYTES]


def _warn(project: Project, plan: Plan, out: Console) -> None:
    import polars as pl

    from qualm.compiler.results.scores import read_scores
    from qualm.runners.scoring.score_warnings import ALL

    has_reason = pl.col("why").is_not_null() | pl.col("disputed").is_not_null() | pl.col("caution").is_not_null()
    for stage in plan.writers("scores"):
        path = project.root / stage.outputs["scores"]
        if path.is_file() and (rows := read_scores(path, pl.col("slice") == ALL, has_reason)):
            from qualm.compiler.results.show import show_warnings

            show_warnings(rows, out, intervals=False)


@contextmanager
def hold_run_lock(root: Path) -> Iterator[str | None]:
    """Hold the project's run lock in the block; yield None, or who holds it already."""
    lock = ProcessLock(root / RUN_LOCK)
    if not lock.acquire(f"process {os.getpid()}, since {time.strftime('%H:%M:%S')}: {shlex.join(['qualm', *sys.argv[1:]])}"):
        yield say.WAIT_OR_STOP.format(busy=say.RUN_BUSY.format(process=lock.holder or say.RUN_JUST_BEGAN))
        return
    try:
        yield None
    finally:
        lock.release()


def _describe_lock_holder(root: Path) -> str:
    """Return a message with the process that holds DVC's lock ("unknown" in it if not found)."""
    try:
        held = json.loads((root / ".dvc/tmp/rwlock").read_text(encoding="utf-8"))
        first = next(iter([*held.get("write", {}).values(), *(who for readers in held.get("read", {}).values() for who in readers)]), None)
    except (OSError, ValueError, AttributeError):
        first = None
    if isinstance(first, dict):  # it is at a stage
        process = f"{first.get('pid')}: {first.get('cmd')}"
    else:
        lock = root / ".dvc" / "tmp" / "lock"
        process = (lock.read_text(encoding="utf-8").strip() if lock.is_file() else "") or "unknown"
    return say.WAIT_OR_STOP.format(busy=say.DVC_BUSY.format(process=process))
