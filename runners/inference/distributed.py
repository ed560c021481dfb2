"""Inference on several devices and machines: each takes a share of the batches, or all share one large model.

The settings decide; results do not depend on it. The first process plans the batches, sends the plan to the others and writes the
tables.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from qualm.runners.runtime.settings import Settings, is_first
from qualm.runners.runtime.stage import StageError

if TYPE_CHECKING:
    import torch

ALONE, REPLICAS, DEVICE_MAP, TENSOR_PARALLEL, FSDP = "alone", "replicas", "device_map", "tensor_parallel", "fsdp"
SPREAD = frozenset({DEVICE_MAP, TENSOR_PARALLEL, FSDP})
"""Strategies that spread one model over several devices."""
TIMEOUT = timedelta(days=7)
"""Time that processes wait for each other; the first looks everything up before the others can begin."""


def parallelism(settings: Settings, together: bool) -> str:
    """Return the strategy for this stage; StageError if the settings do not fit."""
    if not together:
        return ALONE
    world = settings.devices * settings.nodes
    if world == 1 and not is_first():
        raise StageError(
            "several processes were started for this stage (torchrun, srun), but the settings say one device; "
            "set `devices` and `nodes` in qualm.toml or QUALM_DEVICES and QUALM_NODES to what was started"
        )
    if settings.strategy == DEVICE_MAP:
        if settings.nodes > 1 or not is_first():
            raise StageError("strategy device_map has one process on one machine; set nodes = 1 and start it without torchrun or srun")
        return DEVICE_MAP
    if world == 1:
        return ALONE
    return settings.strategy if settings.strategy in SPREAD else REPLICAS


def trainer_arguments(settings: Settings, how: str) -> dict[str, Any]:
    """Return devices and process group for Lightning's Trainer."""
    if how in (ALONE, DEVICE_MAP):
        return {"accelerator": settings.device, "devices": 1}
    from lightning.pytorch.strategies import DDPStrategy

    strategy = DDPStrategy(timeout=TIMEOUT)
    return {"accelerator": settings.device, "devices": settings.devices, "num_nodes": settings.nodes, "strategy": strategy}


def place(model: Any, how: str, device: torch.device, number: int) -> Any:
    """Load the weights onto all devices at once; every process must call this.

    Args:
        model: a `qualm.runners.contracts.models.Model` whose `load` takes `spread`, keyword arguments of `from_pretrained`.
        how: of `SPREAD`.

    Raises:
        StageError: the model's plugin cannot spread it.
    """
    import inspect
    import os

    if how == FSDP:
        return _sharded(model.load(), device)
    if "spread" not in inspect.signature(model.load).parameters:
        raise StageError(f"{type(model).__name__} cannot be spread over devices; set strategy = 'ddp' or devices = 1")
    if how == DEVICE_MAP:  # one process
        return model.load(spread={"device_map": "auto"})
    os.environ.setdefault("LOCAL_RANK", str(number))  # transformers reads it, and srun does not set it
    return model.load(spread={"tp_plan": "auto"})


def _sharded(module: Any, device: torch.device) -> Any:
    """Shard every layer's weights over all processes; a layer gathers them while it computes.

    Modules outside the layers (embeddings, projectors, norms, heads) are sharded one by one.
    """
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    layers = [layer for m in module.modules() if isinstance(m, torch.nn.ModuleList) for layer in m if any(True for _ in layer.parameters())]
    inside = {id(m) for layer in layers for m in layer.modules()}
    # ModuleLists may be nested (experts within a layer): only the outermost is a unit that is gathered at once.
    outer = [layer for layer in layers if not any(layer is not other and any(layer is m for m in other.modules()) for other in layers)]
    for layer in outer:
        fully_shard(layer, mesh=mesh)
    # Children before parents, as FSDP asks for: what is already divided is not taken again.
    for part in reversed(list(module.modules())):
        if id(part) not in inside and any(True for _ in part.parameters(recurse=False)):
            fully_shard(part, mesh=mesh)
    return module.to(device)  # what is no weight: buffers
