"""Estimate the time of parallel runs and the shares of cluster workers: `qualm plan --jobs N --on CLUSTER`.

A stage takes the estimated time of its inference, or else the time of its last run in this checkout. Stages with neither count as
nothing and are named. Stages start in the order of `qualm run`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qualm.compiler.plan.order import longest_chain_first, reads_from
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.compiler.project.inference import StageEstimate
from qualm.compiler.project.rebuilds import ACTIVE, Forecast
from qualm.registry.plugins.registry import SERVER
from qualm.runners.inference.driver import workers_can_ask
from qualm.runners.inference.resources import count_workers, resources_for
from qualm.runners.runtime.run_times import run_times
from qualm.runners.runtime.settings import Settings

RECORDED = "recorded"
"""Plugin of recorded answers, which asks no model."""


@dataclass(frozen=True)
class WorkerShare:
    """Workers of one stage on a cluster: their number, resources, questions."""

    stage: str
    workers: int
    """Maximum number of workers; 0 if the cluster has no room for one."""
    takes: Mapping[str, float]
    """Resources of each worker: CPU, GPU, memory in bytes."""
    questions: int | None = None
    batch: int = 0
    """Questions of one batch; 0 if a server is asked."""

    @property
    def batches(self) -> int | None:
        """Return the approximate number of batches per worker; None if unknown."""
        is_known = self.questions and self.batch and self.workers
        return math.ceil(math.ceil((self.questions or 0) / self.batch) / self.workers) if is_known else None


@dataclass(frozen=True)
class ParallelForecast:
    """Estimated seconds of a run with parallel stages, and workers' shares."""

    jobs: int
    seconds: float
    one_by_one: float
    """Seconds without parallel stages and cluster."""
    unknown: tuple[str, ...]
    """Stages of unknown duration, which count as nothing."""
    shares: tuple[WorkerShare, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shares = [{**asdict(s), "batches": s.batches} for s in self.shares]
        return {"jobs": self.jobs, "seconds": self.seconds, "one_by_one": self.one_by_one, "unknown": list(self.unknown), "shares": shares}


def forecast_parallel(
    plan: Plan,
    forecasts: Sequence[Forecast],
    estimates: Sequence[StageEstimate],
    root: Path,
    settings: Settings,
    jobs: int,
    cluster: Mapping[str, float] | None = None,
) -> ParallelForecast:
    """Return the estimated duration of a run with `jobs` stages at a time.

    Args:
        cluster: resources of a cluster, as Ray names them; None without one.
    """
    active = [plan.stage(f.stage) for f in forecasts if f.action in ACTIVE]
    of = {e.stage: e for e in estimates}
    before = run_times(plan.spec, root).stages
    seconds: dict[str, float] = {name: time.seconds for name, time in before.items()}
    seconds |= {name: e.seconds for name, e in of.items() if e.seconds is not None and e.samples is not None}
    shares = tuple(s for stage in active if (s := _share(stage, of.get(stage.name), settings, cluster or {})) and cluster is not None)
    # Stages that wait for servers need no processor of the cluster, so they run beside others.
    spread = {s.stage: max(1, s.workers) for s in shares if s.takes["CPU"] >= 1}
    before_each = reads_from(active)
    names = longest_chain_first([s.name for s in active], before_each)
    divided = {name: seconds.get(name, 0.0) / spread.get(name, 1) for name in names}
    takes = makespan(divided, before_each, jobs, frozenset(spread))
    unknown = tuple(s.name for s in active if s.name not in seconds)
    return ParallelForecast(jobs, takes, sum(seconds.get(s.name, 0.0) for s in active), unknown, shares)


def makespan(
    seconds: Mapping[str, float], before: Mapping[str, frozenset[str]], jobs: int, exclusive: frozenset[str] = frozenset()
) -> float:
    """Return the seconds until all stages end, at most `jobs` at a time; 0 without stages.

    `before` is {stage: stages that must end first}. Stages in `exclusive` use the whole cluster, so only one of them runs at a time.

    >>> makespan({"a": 3, "b": 1, "c": 2}, {"a": frozenset(), "b": frozenset(), "c": frozenset({"b"})}, 2)
    3.0
    """
    waiting, now = list(seconds), 0.0
    running: list[tuple[float, str]] = []
    ended: set[str] = set()
    while waiting or running:
        # A copy, since `waiting` shrinks. A stage that finds no place waits; smaller ones behind it may pass.
        for name in [name for name in waiting if before[name] <= ended]:
            if len(running) < jobs and not (name in exclusive and any(other in exclusive for _, other in running)):
                waiting.remove(name)
                heapq.heappush(running, (now + seconds[name], name))
        # Time moves to the next end: all stages that can begin now have begun.
        now, name = heapq.heappop(running)
        ended.add(name)
    return now


def _share(stage: PlannedStage, estimate: StageEstimate | None, settings: Settings, cluster: Mapping[str, float]) -> WorkerShare | None:
    if "generations" not in stage.outputs:
        return None
    plugin = next((ref.plugin for ref in stage.refs if ref.plugin.name == stage.params["model"]["plugin"]), None)
    args = stage.params["model"]["args"]
    server = plugin is not None and SERVER in plugin.declares
    if plugin is not None and server:
        server_settings = settings.server(str(args[plugin.declares[SERVER]]), str(args.get("model", "")))
        if not workers_can_ask(server_settings):
            return None
    elif stage.params["model"]["plugin"] == RECORDED:
        return None
    size = int(estimate.memory.total) if estimate and estimate.memory else 0
    takes = resources_for(settings.device, server, size, cluster)
    workers = min(1, count_workers(takes, cluster)) if server else count_workers(takes, cluster)
    return WorkerShare(stage.name, workers, takes, estimate.samples if estimate else None, estimate.batch if estimate else 0)
