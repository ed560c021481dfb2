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


def needed(stage: Stage, remote: bool, total: Mapping[str, float]) -> dict[str, float]:
    """Return the Ray resources of one worker; `remote`: its model is behind a server."""
    size = 0
    with suppress(OSError, ValueError):
        size = int(json.loads((MEMORY / f"{stage.spec}.json").read_text(encoding="utf-8")).get(stage.name, 0))
    return share(stage.settings.device, remote, size, total)


def share(device: str, remote: bool, size: int, total: Mapping[str, float]) -> dict[str, float]:
    """Return the Ray resources for the setting `device` and a worker's bytes (0 if unknown)."""
    if remote:
        return {"CPU": ASKING}
    if device in ("cuda", "gpu") or (device == "auto" and total.get("GPU", 0) >= 1):
        return {"CPU": 1.0, "GPU": 1.0}
    return {"CPU": 1.0, **({"memory": float(size)} if size else {})}


def room(needs: Mapping[str, float], total: Mapping[str, float]) -> int:
    """Return how many workers fit into a cluster."""
    return min(int(total.get(name, 0) // n) for name, n in needs.items())
