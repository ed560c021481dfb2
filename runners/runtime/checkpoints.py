"""Checkpoints that are whole or not there: a kill or a full disk while one is written leaves the one before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def checkpoint_plugins(strategy: str) -> list[Any]:
    """What Lightning's Trainer is given to write checkpoints with; nothing for strategies that write their own."""
    if strategy.startswith("deepspeed"):
        return []
    from lightning.pytorch.plugins.io import TorchCheckpointIO

    class Whole(TorchCheckpointIO):  # type: ignore[misc]
        """Beside its place first, to disk, then a rename: Lightning's own goes by way of the temporary folder."""

        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            import torch

            path = Path(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = partial_path(path)
            try:
                with partial.open("wb") as handle:
                    torch.save(checkpoint, handle)
                    handle.flush()
                    os.fsync(handle.fileno())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    return [Whole()]


def partial_path(path: Path) -> Path:
    """Where a checkpoint is written before it takes its place."""
    return path.with_name(f".{path.name}.partial")
