"""Full fine-tuning of all weights, the vision tower optional."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qualm.runners.contracts.tunings import Tuning

if TYPE_CHECKING:
    from qualm.runners.inference.hf.model import HfVlm

EXTRA = "train"


def full(model: HfVlm, *, vision: bool = False, frozen: str | None = None) -> Tuning:
    """Return a Tuning of all weights in float32; the vision tower's only with `vision`.

    It saves in the model's dtype.

    Args:
        vision: train the vision tower too.
        frozen: pattern (a regular expression) of further modules that stay as they are: of the whole dotted name or of its end.
    """
    import torch

    from qualm.runners.training.weights import copy_processor, matching_modules, vision_tower

    network: Any = model.load(dtype="float32")
    network.requires_grad_(True)
    if not vision and (tower := vision_tower(network)) is not None:
        tower.requires_grad_(False)
    for name in matching_modules(network, frozen, vision=True, linear=False) if frozen else ():
        network.get_submodule(name).requires_grad_(False)

    def save(folder: Path, state: Mapping[str, Any]) -> None:
        dtype = getattr(torch, model.dtype)
        weights = {name: value.to(dtype) if value.is_floating_point() else value for name, value in state.items()}
        network.config.dtype = dtype
        network.save_pretrained(str(folder), state_dict=weights, safe_serialization=True)
        copy_processor(model, folder)

    def reference() -> Callable[[], AbstractContextManager[Any]]:
        frozen_copy: Any = copy.deepcopy(network).requires_grad_(False).eval()

        @contextmanager
        def original() -> Iterator[Any]:
            with torch.no_grad():
                yield frozen_copy.to(network.device)

        return original

    return Tuning(network, save, reference)
