"""Checkpoints written atomically: a kill or a full disk while one is written leaves the previous one."""

from pathlib import Path
from typing import Any

from qualm.registry.formats import atomic


def checkpoint_plugins(strategy: str) -> list[Any]:
    """What Lightning's Trainer is given to write checkpoints with; nothing for strategies that write their own."""
    if strategy.startswith("deepspeed"):
        return []
    from lightning.pytorch.plugins.io import TorchCheckpointIO

    class Whole(TorchCheckpointIO):  # type: ignore[misc]
        """Beside its place first, to disk, then a rename: Lightning's own goes by way of the temporary folder."""

        def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
            import torch

            with atomic.file(Path(path), durable=True) as partial, partial.open("wb") as handle:
                torch.save(checkpoint, handle)

    return [Whole()]
