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


def parallelism(settings: Settings, share_with_processes: bool) -> str:
    """Return ALONE, REPLICAS or a mode of SPREAD; StageError if settings forbid the processes.

    Without `share_with_processes` it is always ALONE.
    """
    if not share_with_processes:
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


def trainer_arguments(settings: Settings, parallelism: str) -> dict[str, Any]:
    """Return the arguments of Lightning's Trainer for devices and processes, by name."""
    if parallelism in (ALONE, DEVICE_MAP):
        return {"accelerator": settings.device, "devices": 1}
    from lightning.pytorch.strategies import DDPStrategy

    strategy = DDPStrategy(timeout=TIMEOUT)
    return {"accelerator": settings.device, "devices": settings.devices, "num_nodes": settings.nodes, "strategy": strategy}


def load_spread(model: Any, strategy: str, device: torch.device, local_rank: int) -> Any:
    """Return a model's module, spread over all devices; every process must call this.

    Args:
        model: a `qualm.runners.contracts.models.Model` whose `load` takes `spread`, keyword arguments of `from_pretrained`.
        strategy: of `SPREAD`.

    Raises:
        StageError: the model's plugin cannot spread it.
    """
    import inspect
    import os

    if strategy == FSDP:
        return _shard_weights(model.load(), device)
    if "spread" not in inspect.signature(model.load).parameters:
        raise StageError(f"{type(model).__name__} cannot be spread over devices; set strategy = 'ddp' or devices = 1")
    if strategy == DEVICE_MAP:  # one process
        return model.load(spread={"device_map": "auto"})
    os.environ.setdefault("LOCAL_RANK", str(local_rank))  # transformers reads it, and srun does not set it
    return model.load(spread={"tp_plan": "auto"})


def _shard_weights(module: Any, device: torch.device) -> Any:
    """Shard a module's weights over all processes by FSDP, layer by layer, and return it.

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
