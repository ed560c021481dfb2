"""Resources of a cluster that one worker of a stage takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from qualm.runners.runtime.stage import LOCAL, Stage

HERE = "ray"
"""Value of the setting `cluster` for this machine's Ray, which is started if necessary."""
MEMORY = LOCAL / "cluster"
"""Folder with a file per spec: bytes that a worker of each stage needs, as `qualm plan` estimates."""
ASKING = 0.1
"""CPU share of a worker that waits for a server."""


def worker_resources(stage: Stage, remote: bool, total: Mapping[str, float]) -> dict[str, float]:
    """Return amount by resource for a Ray worker of a stage; `remote`: it asks a server only."""
    size = 0
    with suppress(OSError, ValueError):
        size = int(json.loads((MEMORY / f"{stage.spec}.json").read_text(encoding="utf-8")).get(stage.name, 0))
    return resources_for(stage.settings.device, remote, size, total)


def resources_for(device: str, remote: bool, worker_bytes: int, total: Mapping[str, float]) -> dict[str, float]:
    """Return a worker's {"CPU": n}, and if not remote, a "GPU" or known bytes of "memory".

    `worker_bytes` is 0 if unknown.
    """
    if remote:
        return {"CPU": ASKING}
    if device in ("cuda", "gpu") or (device == "auto" and total.get("GPU", 0) >= 1):
        return {"CPU": 1.0, "GPU": 1.0}
    return {"CPU": 1.0, **({"memory": float(worker_bytes)} if worker_bytes else {})}


def count_workers(needs: Mapping[str, float], total: Mapping[str, float]) -> int:
    """Return how many workers that need these amounts fit into a cluster of `total`."""
    return min(int(total.get(name, 0) // n) for name, n in needs.items())
