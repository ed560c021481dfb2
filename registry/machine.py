"""Facts about this machine on Linux, macOS and Windows.

Nothing here may reach stored content: results are the same on every machine.
"""

import os
import sys
from pathlib import Path

LINUX: bool = sys.platform == "linux"
WINDOWS: bool = sys.platform == "win32"


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    Container quotas are ignored.
    """
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """Return the most bytes of memory that this process has used so far."""
    import psutil

    used = psutil.Process().memory_info()
    if hasattr(used, "peak_wset"):  # Windows
        return int(used.peak_wset)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if LINUX else 1)


def total_memory() -> int:
    """Return the bytes of main memory of this machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def nvidia_cards() -> int:
    """Return the number of NVIDIA cards by Linux's driver; 0 elsewhere."""
    folder = Path("/proc/driver/nvidia/gpus")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def processor_name() -> str:
    """Return the processor's model name."""
    import platform

    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return platform.processor()
    with file.open(encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def end_with_parent() -> None:
    """Make this process end when its parent ends; on Linux only."""
    if not LINUX:
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
