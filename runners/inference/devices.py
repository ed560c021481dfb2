"""The device of a model that Lightning does not place, and whether an error means too little memory."""

_FULL = ("out of memory", "can't allocate memory", "not enough memory", "cublas_status_alloc_failed")


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
        raise RuntimeError(f"the setting `device` is {name}, and this machine has {here}")


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was too small for a batch, on whatever device."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _FULL)
