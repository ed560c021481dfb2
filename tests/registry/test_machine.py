"""Questions about the machine have an answer on every system."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from qualm.registry import machine

MIB = 1 << 20


def test_usable_cores_are_those_that_this_process_may_run_on() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system has no affinity")
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from qualm.registry.machine import *; print(usable_cores())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "1"


def test_all_cores_count_where_the_system_has_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("process_cpu_count", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(machine.sys, "version_info", (3, 11))
    assert machine.usable_cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1


def test_peak_memory_is_in_bytes_and_stays_when_memory_is_freed() -> None:
    before = machine.peak_memory()
    assert MIB < before < machine.total_memory()
    block = bytearray(os.urandom(MIB)) * 200
    del block
    assert machine.peak_memory() >= before + 100 * MIB or machine.peak_memory() >= 200 * MIB


def test_windows_says_its_peak_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Used:
        peak_wset = 123

    monkeypatch.setattr(psutil.Process, "memory_info", lambda process: Used())
    assert machine.peak_memory() == 123


def test_the_processor_has_a_name_on_every_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "Apple M1")
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / name.removeprefix("/"))
    assert machine.processor_name() == "Apple M1"
    assert machine.nvidia_cards() == 0
