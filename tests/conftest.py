"""Settings of all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.processes.forks import FORKS_VARIABLE, forks, room_for_forks

# While tests are collected, nothing becomes garbage; afterwards a collection need not look through libraries and the list of tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# Compiled modules are kept, for workers and for the commands that tests start, even where the caller's shell forbids it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# One thread for each process: tests run side by side, and their models are small.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it
# Else DVC starts a process for each command, which reports its use.
os.environ.setdefault("DVC_NO_ANALYTICS", "true")

# As in an activated environment: tests start `dvc`, and stages start `python3`.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background; what tests start and then interrupt would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, and no limit of time: a busy machine fails no test. Most properties here have few branches.
settings.register_profile("qualm", max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("qualm")


def pytest_configure(config: pytest.Config) -> None:
    # The workers of pytest-xdist have that of their controller. Windows has none.
    if FORKS_VARIABLE not in os.environ and hasattr(os, "mkfifo"):
        room = ExitStack()
        room.enter_context(room_for_forks())
        config.add_cleanup(room.close)


@pytest.fixture(scope="module")
def forked_python() -> Iterator[None]:
    """Start what a module's tests start with `sys.executable -m` as forks, which need not import large libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(forks().python))
        yield
