import pytest
import torch

from qualm.runners.inference.devices import out_of_memory, torch_device


def test_auto_is_the_accelerator_that_is_there(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert torch_device("auto") == "cuda" and torch_device("cpu") == "cpu" and torch_device("mps") == "mps"
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert torch_device("auto") == "cpu"


@pytest.mark.parametrize(
    "error, is_memory",
    [
        (torch.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("shapes do not fit"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_which_errors_mean_too_little_memory(error, is_memory):
    assert out_of_memory(error) is is_memory
