import subprocess
import sys

import pytest
import torch

from qualm.runners.inference.devices import DeviceError, double_device, out_of_memory, to_double, torch_device

FAULTS = """
import resource, sys
import torch
if sys.argv[1] == "settled":
    from qualm.runners.inference.devices import speed_up_cpu
    speed_up_cpu()
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


@pytest.fixture
def apple(monkeypatch):
    """A torch as on a Mac: its accelerator is MPS, which has no float64 and on old systems no bfloat16."""
    empty = torch.empty

    def mps_empty(*shape, dtype, device):
        if dtype in (torch.float64, torch.bfloat16):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")
        return empty(*shape, dtype=dtype)

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    monkeypatch.setattr(torch, "empty", mps_empty)


@pytest.mark.parametrize("device", ["auto", "gpu", "mps"])
def test_a_dtype_that_the_device_does_not_have_is_refused(apple, device):
    assert torch_device(device, "float32") == torch_device(device, "float16") == torch_device(device) == "mps"
    assert torch_device("cpu", "float64") == "cpu"
    for dtype in ("float64", "bfloat16"):
        with pytest.raises(
            DeviceError, match=rf'dtype {dtype}: .*MPS.*; ask for another dtype in the spec, or set `device = "cpu"` in qualm'
        ):
            torch_device(device, dtype)


def test_what_is_always_computed_in_float64_is_computed_on_the_cpu(apple):
    assert double_device("auto") == "cpu" and double_device("cuda:1") == "cuda:1"


class MpsTensor(torch.Tensor):
    """A tensor that says it lies on MPS, and refuses float64 as one there does."""

    device = torch.device("mps")

    def double(self):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_numbers_become_float64_wherever_their_device_has_it():
    numbers = torch.tensor([1 / 3, 2.0])
    for tensor in (numbers, numbers.as_subclass(MpsTensor)):
        wide = to_double(tensor)
        assert wide.dtype == torch.float64 and wide.device.type == "cpu" and wide.tolist() == numbers.tolist()
    assert to_double(torch.empty(2, device="meta", dtype=torch.float16)).device.type == "meta"


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
