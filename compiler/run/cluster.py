"""The Ray cluster of `qualm run --on`: an existing one by its address, or one on this machine for the time of the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from qualm.compiler.plan.plan import Plan
from qualm.compiler.project.inference import estimate
from qualm.compiler.project.rebuilds import Forecast
from qualm.compiler.run.session import visible_gpus
from qualm.compiler.spec.errors import ProjectError
from qualm.registry.machine import total_memory, usable_cores
from qualm.registry.plugins.extras import install_line, is_installed
from qualm.registry.system import atomic
from qualm.runners.inference.resources import HERE, MEMORY
from qualm.runners.runtime.settings import Settings

FREE = 0.7
"""Share of the main memory that Ray gives to workers; the rest is its object store's."""


def check_address(on: str | None) -> None:
    """Raise ProjectError if `--on` is empty or blank; None, no cluster, is fine."""
    if on is not None and not on.strip():
        raise ProjectError("--on: expected `ray`, `ray://HOST:10001` or `HOST:6379`, got nothing; leave `--on` out for no cluster")


@contextmanager
def open_cluster(on: str) -> Iterator[str]:
    """Yield `on`, an address or ""; for "ray" that of a local cluster, started if none runs.

    Raise ProjectError if Ray is not installed.
    """
    if on and not is_installed("cluster"):
        raise ProjectError(f"--on {on}: Ray is not installed: `{install_line('cluster')}`")
    if on != HERE:
        yield on
        return
    import ray

    context: Any = ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)  # connects to a local one that runs
    try:
        yield str(context.address_info["gcs_address"])
    finally:
        ray.shutdown()


def cluster_resources(on: str, settings: Settings) -> dict[str, float]:
    """Return {"CPU", "GPU": counts, "memory": bytes...} that a cluster or this machine offers.

    A cluster's resources are those that Ray lists: others may be among them, and "GPU" is missing where there is none.

    Raises:
        ProjectError: Ray is not installed, or the cluster cannot be reached.
    """
    if on == HERE:
        return {"CPU": float(usable_cores()), "GPU": float(len(visible_gpus())), "memory": FREE * total_memory()}
    if not is_installed("cluster"):
        raise ProjectError(f"--on {on}: Ray is not installed: `{install_line('cluster')}`")
    from qualm.runners.inference.driver import connect_ray

    ray = connect_ray(replace(settings, cluster=on))
    try:
        return {name: float(number) for name, number in ray.cluster_resources().items()}
    finally:
        ray.shutdown()


def save_memory_estimates(plan: Plan, forecasts: Sequence[Forecast], root: Path, settings: Settings) -> None:
    """Write {stage: estimated bytes of memory per worker} to .qualm for inference stages."""
    sizes = {e.stage: int(e.memory.total) for e in estimate(plan, forecasts, root, settings) if e.memory is not None}
    # By a file and not a parameter: an estimate must not make a stage run anew.
    atomic.write_text(root / MEMORY / f"{plan.spec}.json", json.dumps(sizes, sort_keys=True) + "\n")
