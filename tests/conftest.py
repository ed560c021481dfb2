"""Settings of all tests."""

import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it: spinning threads starve each other where tests run in parallel

# As in an activated environment: tests start `dvc`, and stages start `python3`.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background; what tests start and then interrupt would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, and no limit of time: a busy machine fails no test.
settings.register_profile("qualm", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("qualm")
