"""Settings of all tests."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the runner has it: spinning threads starve each other where tests run in parallel
