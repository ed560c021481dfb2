"""Which device a model of ours runs on, for models that Lightning does not place."""

from __future__ import annotations


def torch_device(name: str) -> str:
    """The torch device of the setting `device`: `auto` is the accelerator that this machine has, else the CPU."""
    import torch

    if name != "auto":
        return name
    return str(torch.accelerator.current_accelerator() or "cpu") if torch.accelerator.is_available() else "cpu"
