import subprocess
import sys

import pytest
import torch

from qualm.runners.inference.devices import out_of_memory, torch_device

FAULTS = """
import resource, sys
import torch
if sys.argv[1] == "settled":
    from qualm.runners.inference.devices import settle_cpu
    settle_cpu()
torch.ones(2**24).sum()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(2**24).sum()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_freed_memory_is_kept_for_the_next_tensor():
    plain, settled = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, text=True).stdout)
        for how in ("plain", "settled")
    )
    assert plain > 100 and settled < plain / 2
