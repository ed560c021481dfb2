"""Devices of models that Lightning does not place, CPU settings of a process, and out-of-memory errors."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING

from qualm.registry.machine import LINUX

if TYPE_CHECKING:
    import torch

_FULL = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Options of glibc's `mallopt` (malloc.h)."""


class DeviceError(RuntimeError):
    """A device that does not support what the spec asks for; the message says what to change."""


def torch_device(name: str, dtype: str | None = None) -> str:
    """Return the torch device of the setting `device`; DeviceError if MPS lacks the `dtype`.

    Args:
        name: `auto` or `gpu` is this machine's accelerator (CUDA, else MPS); without one `auto` is the CPU.
        dtype: of the weights on the device.

    Raises:
        DeviceError: the device does not support this dtype.
    """
    import torch

    device = name
    if name in ("auto", "gpu"):
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        device = str(found or {"auto": "cpu"}.get(name, name))
    if dtype is not None and device.partition(":")[0] == "mps":
        try:
            torch.empty(1, dtype=getattr(torch, dtype), device=device)
        except TypeError as error:  # of float64 always, of bfloat16 before macOS 14
            raise DeviceError(
                f'dtype {dtype}: {error}; ask for another dtype in the spec, or set `device = "cpu"` in qualm.toml'
            ) from error
    return device


def double_device(name: str) -> str:
    """Return the torch device for float64 computation: that of `name`, or the CPU for MPS."""
    device = torch_device(name)
    return "cpu" if device.partition(":")[0] == "mps" else device


def to_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64, on the CPU where its device has no float64 (MPS)."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def check_device(name: str) -> None:
    """Raise RuntimeError if this machine lacks the device that the setting `device` names."""
    here = torch_device("auto")
    if name == "gpu" and here != "cpu":
        return
    if name not in ("auto", "cpu") and not here.startswith(name):
        raise RuntimeError(f"the setting `device` is {name}, and this machine has {here}; set it to `auto` or {here} in qualm.toml")


@cache
def speed_up_cpu() -> None:
    """Set this process to use SDPA's grouped-query attention and to keep freed memory."""
    os.environ.setdefault("TRANSFORMERS_SDPA_FORCE_GQA", "1")  # read at every call; there are other kernels on GPUs
    keep_memory()


@cache
def keep_memory() -> None:
    """Make this process keep freed memory for its next tensors (Linux with glibc).

    By default glibc returns memory of large tensors to the system, which zeroes it again: a tenth of the time of training a small model, a
    seventh of its inference. At most the peak of past use is kept.
    """
    if not LINUX:
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    mallopt(_M_TOP_PAD, 64 << 20)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error of any device says that memory was too small."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _FULL)
