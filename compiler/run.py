"""`qualm run`: compile, say what will happen, let DVC do it, point at the report."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter

from compiler.emit import pipeline_path, write
from compiler.explain import foretell
from compiler.project import Project
from compiler.views import console


def run_pipeline(project: Project, spec: str | None, arguments: list[str]) -> int:
    """Rebuild a spec's results. Returns 0, or 1 where something is missing or a stage failed."""
    plan = project.plan(spec)
    default = project.run_wide.default
    before = project.before(plan)
    write(project.root, [*before, plan], default)
    forecasts = foretell(plan, project.root, default, before)
    counts = Counter(f.action for f in forecasts)
    out = console()
    out.print(
        f"[bold]{plan.spec}[/]: {len(forecasts)} stages, {counts['run']} to run, {counts['perhaps']} perhaps, "
        f"{counts['restore']} to restore, {counts['unchanged']} up to date"
    )
    for lack in dict.fromkeys(str(r) for f in forecasts for r in f.reasons if r.kind == "missing"):
        out.print(f"[red]{lack}[/]")
    if counts["blocked"]:
        return 1
    command, environment = project.dvc("repro", "--pull", pipeline_path(plan.spec, default), *arguments)
    start = time.monotonic()
    code = _wait(subprocess.Popen(command, cwd=project.root, env=environment))
    report = project.root / "results" / plan.spec / "report.html"
    if code == 0:
        out.print(f"[bold]{plan.spec}[/] is up to date after {time.monotonic() - start:.0f} s; `qualm show {plan.spec}` shows the scores")
        if report.is_file():
            out.print(f"report: {report.relative_to(project.root)}")
    else:
        out.print(f"[red]stopped with exit code {code}[/]; what was done is kept: run it again to go on")
    return 0 if code == 0 else 1


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait through Ctrl-C: the terminal sends it to DVC and its stage too, and they end in order."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                return process.wait()
            finally:
                signal.signal(signal.SIGINT, previous)
