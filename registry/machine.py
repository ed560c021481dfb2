"""Facts about this machine on Linux, macOS and Windows.

Nothing here may reach stored content: results are the same on every machine.
"""

import os
import sys
from pathlib import Path

LINUX: bool = sys.platform == "linux"
WINDOWS: bool = sys.platform == "win32"


def usable_cores() -> int:
    """Return the number of cores this process may be scheduled on, at least 1.

    Container quotas are ignored.
    """
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """Return the largest resident memory that this process has had so far, in bytes."""
    import psutil

    used = psutil.Process().memory_info()
    if hasattr(used, "peak_wset"):  # Windows
        return int(used.peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if LINUX else 1)


def total_memory() -> int:
    """Return the size of the main memory, in bytes."""
    import psutil

    return int(psutil.virtual_memory().total)


def nvidia_cards() -> int:
    """Return the number of NVIDIA cards that the driver lists; 0 on systems other than Linux."""
    folder = Path("/proc/driver/nvidia/gpus")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def processor_name() -> str:
    """Return the processor's model name from /proc/cpuinfo, else `platform.processor()`."""
    import platform

    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return platform.processor()
    with file.open(encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def end_with_parent() -> None:
    """Make the kernel end this process when its parent ends; Linux only."""
    if not LINUX:
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
