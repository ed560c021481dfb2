"""How long a run takes whose stages work side by side, and what each worker of a cluster gets: `qualm plan --jobs N --on CLUSTER`.

The time of a stage is what `qualm plan` estimates of its inference, else what it took when it last ran in this checkout; stages of
neither are named and count as nothing. They are then begun as `qualm run` begins them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qualm.compiler.forecast.inference import ACTIVE, Estimate
from qualm.compiler.forecast.rebuilds import Forecast
from qualm.compiler.plan.order import longest_chain_first, reads_from
from qualm.compiler.plan.plan import Plan, PlannedStage
from qualm.registry.plugins.rule import SERVER
from qualm.runners.inference.cluster.driver import asked_there
from qualm.runners.inference.cluster.resources import room, share
from qualm.runners.runtime.run_times import run_times
from qualm.runners.runtime.settings import Settings

RECORDED = "recorded"
"""The plugin of answers that are on record, which nobody is asked for."""


@dataclass(frozen=True)
class Share:
    """What the workers of a cluster get of one stage."""

    stage: str
    workers: int
    """At most; 0 where the cluster has no room for one."""
    takes: Mapping[str, float]
    """Resources of each: CPU, GPU, memory in bytes."""
    questions: int | None = None
    """Of the stage; None where there is no telling yet."""
    batch: int = 0
    """Questions of one batch, which a worker gets at a time; 0 where a server is asked."""

    @property
    def batches(self) -> int | None:
        """That each worker gets, about."""
        is_known = self.questions and self.batch and self.workers
        return math.ceil(math.ceil((self.questions or 0) / self.batch) / self.workers) if is_known else None


@dataclass(frozen=True)
class Together:
    """A run whose stages work side by side."""

    jobs: int
    seconds: float
    """From its beginning to its end."""
    one_by_one: float
    """The same here, without a cluster."""
    unknown: tuple[str, ...]
    """Stages of which no time is known; both leave them out."""
    shares: tuple[Share, ...] = ()

    def as_json(self) -> dict[str, Any]:
        shares = [{**asdict(s), "batches": s.batches} for s in self.shares]
        return {"jobs": self.jobs, "seconds": self.seconds, "one_by_one": self.one_by_one, "unknown": list(self.unknown), "shares": shares}


def together(
    plan: Plan,
    forecasts: Sequence[Forecast],
    estimates: Sequence[Estimate],
    root: Path,
    settings: Settings,
    jobs: int,
    cluster: Mapping[str, float] | None = None,
) -> Together:
    """
    Args:
        settings: `device` and servers are read.
        cluster: resources of a cluster, as Ray names them; None without one.
    """
    active = [plan.stage(f.stage) for f in forecasts if f.action in ACTIVE]
    of = {e.stage: e for e in estimates}
    before = run_times(plan.spec, root).stages
    seconds: dict[str, float] = {name: time.seconds for name, time in before.items()}
    seconds |= {name: e.seconds for name, e in of.items() if e.seconds is not None and e.samples is not None}
    shares = tuple(s for stage in active if (s := _share(stage, of.get(stage.name), settings, cluster or {})) and cluster is not None)
    # Who waits for a server needs no processor of the cluster, so such a stage goes beside others.
    spread = {s.stage: max(1, s.workers) for s in shares if s.takes["CPU"] >= 1}  # not those who wait for servers
    before_each = reads_from(active)
    names = longest_chain_first([s.name for s in active], before_each)
    own = {name: seconds.get(name, 0.0) / spread.get(name, 1) for name in names}
    takes = makespan(own, before_each, jobs, frozenset(spread))
    unknown = tuple(s.name for s in active if s.name not in seconds)
    return Together(jobs, takes, sum(seconds.get(s.name, 0.0) for s in active), unknown, shares)


def makespan(seconds: Mapping[str, float], before: Mapping[str, frozenset[str]], jobs: int, whole: frozenset[str] = frozenset()) -> float:
    """Seconds until all stages have ended, of which so many work at a time, begun in order as soon as they can.

    Those of `whole` take a whole cluster, so that only one of them is at work at a time.

    >>> makespan({"a": 3, "b": 1, "c": 2}, {"a": frozenset(), "b": frozenset(), "c": frozenset({"b"})}, 2)
    3.0
    """
    waiting, now = list(seconds), 0.0
    running: list[tuple[float, str]] = []
    ended: set[str] = set()
    while waiting or running:
        # A copy, since `waiting` shrinks meanwhile. A stage that finds no place waits, and smaller ones behind it may pass.
        for name in [name for name in waiting if before[name] <= ended]:
            if len(running) < jobs and not (name in whole and any(other in whole for _, other in running)):
                waiting.remove(name)
                heapq.heappush(running, (now + seconds[name], name))
        # Time moves only to the next end; all that begin at one moment have been begun above.
        now, name = heapq.heappop(running)
        ended.add(name)
    return now


def _share(stage: PlannedStage, estimate: Estimate | None, settings: Settings, cluster: Mapping[str, float]) -> Share | None:
    """None where a stage is done here."""
    if "generations" not in stage.outputs:
        return None
    plugin = next((ref.plugin for ref in stage.refs if ref.plugin.name == stage.params["model"]["plugin"]), None)
    args = stage.params["model"]["args"]
    server = plugin is not None and SERVER in plugin.declares
    if plugin is not None and server:
        server_settings = settings.server(str(args[plugin.declares[SERVER]]), str(args.get("model", "")))
        if not asked_there(server_settings):
            return None
    elif stage.params["model"]["plugin"] == RECORDED:
        return None
    size = int(estimate.memory.total) if estimate and estimate.memory else 0
    takes = share(settings.device, server, size, cluster)
    workers = min(1, room(takes, cluster)) if server else room(takes, cluster)
    return Share(stage.name, workers, takes, estimate.samples if estimate else None, estimate.batch if estimate else 0)
