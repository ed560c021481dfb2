"""The device of a model that Lightning does not place, settings of a process for its CPU, and whether an error means too little memory."""

import ctypes
import os
from functools import cache

_FULL = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""What glibc's `mallopt` calls its settings (malloc.h)."""


def torch_device(name: str) -> str:
    """The torch device of the setting `device`: `auto` is the accelerator that this machine has, else the CPU."""
    import torch

    if name != "auto":
        return name
    return str(torch.accelerator.current_accelerator() or "cpu") if torch.accelerator.is_available() else "cpu"


def check_device(name: str) -> None:
    """Refuse a setting `device` that this machine does not have.

    Raises:
        RuntimeError: so it is.
    """
    here = torch_device("auto")
    if name not in ("auto", "cpu") and not here.startswith({"gpu": here}.get(name, name)):
        raise RuntimeError(f"the setting `device` is {name}, and this machine has {here}; set it to `auto` or {here} in qualm.toml")


@cache
def settle_cpu() -> None:
    """Make networks compute the same faster on a CPU: freed memory is kept for the next tensor, and keys and values are not repeated."""
    os.environ.setdefault("TRANSFORMERS_SDPA_FORCE_GQA", "1")  # read at every call; there are other kernels on GPUs
    keep_memory()


@cache
def keep_memory() -> None:
    """Keep freed memory of this process for the next tensor.

    glibc gives memory of large tensors back to the system each time, which then fills it with zeros again: a tenth of the time in which
    a small model is trained, a seventh of that in which it answers. What is kept is at most what was once in use at a time. On other
    systems nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    mallopt(_M_TOP_PAD, 64 << 20)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was too small for a batch, on whatever device."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _FULL)
