"""Batch sizes: from the settings, or measured on the device.

On a GPU the longest prompts of each kind are answered in batches of 1, 2, 4..., until twice as many would not fit; the answers are
discarded and the size is cached by model, kind, length and device. A size that proves too large later is halved
(`qualm.runners.inference.local`). On a CPU large batches gain nothing, so nothing is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from qualm.runners.inference import distributed
from qualm.runners.inference.batch_plan import make_requests
from qualm.runners.inference.devices import out_of_memory, torch_device
from qualm.runners.inference.local import load_module
from qualm.runners.runtime.blobs import BlobCache
from qualm.runners.runtime.progress import progress

if TYPE_CHECKING:
    from qualm.runners.data.answers import StoredAnswers
    from qualm.runners.inference.batch_plan import AnswerTask, Sizes
    from qualm.runners.inference.requests import Asker

MAX_BATCH = 256
"""Prompts; larger batches make no GPU faster, but lose more work to a kill."""
SHARE = 0.85
"""Share of a device's memory that a batch may take, weights included; PyTorch does not count all that is used."""
_LENGTHS = 128
"""Prompt lengths, in approximate tokens, that share one measured size."""


class DeviceMemory(Protocol):
    name: str
    room: int
    """Usable bytes."""

    def used(self) -> int:
        """Return the device's bytes that tensors of this process occupy."""

    def peak(self, work: Callable[[], Any]) -> int:
        """Run a function; return the peak of the device's bytes in use meanwhile."""


class CudaMemory:
    """Memory of a CUDA or ROCm device."""

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)
        facts = torch.cuda.get_device_properties(self.device)
        self.name = f"{facts.name}, {facts.total_memory} bytes"
        free, _ = torch.cuda.mem_get_info(self.device)
        # Reserved memory is PyTorch's to hand out again, and peaks are counted with the weights that lie in it.
        self.room = int(SHARE * (free + torch.cuda.memory_reserved(self.device)))

    def used(self) -> int:
        import torch

        return int(torch.cuda.memory_allocated(self.device))

    def peak(self, work: Callable[[], Any]) -> int:
        import torch

        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        torch.cuda.synchronize(self.device)
        return int(torch.cuda.max_memory_allocated(self.device))


def choose_batch_sizes(asker: Asker, store: StoredAnswers, share_with_processes: bool) -> Sizes:
    """Return a function from tasks of one kind to batch size: set, measured (CUDA) or default."""
    settings = asker.stage.settings
    # An engine such as vLLM makes batches of its own; ours only say how much is lost to a kill.
    if getattr(asker.model, "plans_batches", False):
        return lambda _: settings.batch_size or MAX_BATCH
    device = torch_device(settings.device) if not settings.batch_size else ""
    # On a model that is spread over processes one of them cannot measure alone: the others would have to take part.
    spread = share_with_processes and distributed.parallelism(settings, share_with_processes) in distributed.SPREAD
    if not device.startswith("cuda") or spread:
        return lambda _: settings.batch
    return measure_batch_sizes(asker, store, CudaMemory(device), device)


def measure_batch_sizes(asker: Asker, store: StoredAnswers, memory: DeviceMemory, device: str) -> Sizes:
    """Return a function from tasks of one kind to the largest batch that fits, measured once.

    The size is a power of two. Measuring runs the model, and larger sizes are cached on disk.
    """
    cache = BlobCache("batch_sizes", asker.model.digest, asker.engine.identity, memory.name, repr(asker.decoding))

    def size(alike: Sequence[AnswerTask]) -> int:
        # The longest prompts take the most; a size that fits them fits all.
        longest = sorted(alike, key=lambda task: -task.cell.length)
        key = cache.key(alike[0].parts, alike[0].cell.options > 0, longest[0].cell.length // _LENGTHS)
        stored_size = cache.get(key)
        if stored_size is not None:
            return int(json.loads(stored_size))
        load_module(asker).to(device)
        with progress(asker.stage.settings, "measuring memory") as advance:

            def peak_of(n: int) -> int:
                advance()
                return memory.peak(lambda: _answer(asker, store, longest[:n]))

            largest = largest_batch(peak_of, memory.used(), memory.room, min(MAX_BATCH, len(alike)))
        if largest < len(alike):  # else it says more about the data than about the memory
            cache.put(key, json.dumps(largest).encode())
        return largest

    return size


def largest_batch(peak_of: Callable[[int], int], used: int, room: int, max_batch: int) -> int:
    """Return the largest power of two up to `max_batch` whose batch fits; 1 even if none does.

    Args:
        peak_of: bytes in use while that many prompts are answered.
        used: bytes in use before.
        room: usable bytes.
    """
    n, before = 1, used
    try:
        now = peak_of(1)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return 1  # the run itself will meet that prompt, and name it
    while 2 * n <= max_batch:
        # Linear in the number of prompts: what n take more than n/2, 2n take twice more than n; what one takes, two take once more.
        if now + (now - before) * (1 if n == 1 else 2) > room:
            break
        try:
            before, now = now, peak_of(2 * n)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            break
        n *= 2
    return n


def _answer(asker: Asker, store: StoredAnswers, tasks: Sequence[AnswerTask]) -> None:
    batch = make_requests(asker, store, [task.cell.place for task in tasks], tasks[0].parts)
    asker.model.answer(asker.model.encode(batch), asker.decoding)
