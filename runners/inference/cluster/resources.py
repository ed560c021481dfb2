"""Which resources of a cluster one worker of a stage takes, and where that is stated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from qualm.runners.runtime.stage import LOCAL, Stage

HERE = "ray"
"""As the setting `cluster`: the Ray of this machine, which is started where none runs."""
MEMORY = LOCAL / "cluster"
"""A file for each spec: bytes that a worker of each stage takes, as `qualm plan` estimates. `qualm run --on` writes it."""
ASKING = 0.1
"""Of a CPU, for who asks a server and waits."""


def needed(stage: Stage, remote: bool, total: Mapping[str, float]) -> dict[str, float]:
    """Resources of Ray that one worker takes.

    Args:
        remote: whether its model is behind a server.
    """
    size = 0
    with suppress(OSError, ValueError):
        size = int(json.loads((MEMORY / f"{stage.spec}.json").read_text(encoding="utf-8")).get(stage.name, 0))
    return share(stage.settings.device, remote, size, total)


def share(device: str, remote: bool, size: int, total: Mapping[str, float]) -> dict[str, float]:
    """The same by the setting `device` and the bytes that a worker takes; 0 where they are not known."""
    if remote:
        return {"CPU": ASKING}
    if device in ("cuda", "gpu") or (device == "auto" and total.get("GPU", 0) >= 1):
        return {"CPU": 1.0, "GPU": 1.0}
    return {"CPU": 1.0, **({"memory": float(size)} if size else {})}


def room(needs: Mapping[str, float], total: Mapping[str, float]) -> int:
    """How many workers a cluster of these resources has room for."""
    return min(int(total.get(name, 0) // n) for name, n in needs.items())
