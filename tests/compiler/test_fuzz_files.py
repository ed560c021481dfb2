"""Some hundred mutated specs, cards and `.dvc` files through the command line; `tests/bench/fuzz_files.py` does ten thousand of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.fuzz_files import KINDS, prepare

SCRIPT = Path(__file__).parents[1] / "bench" / "fuzz_files.py"
CASES = 60


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_file_holds_is_one_line_and_an_exit_code(tmp_path: Path, kind: str) -> None:
    root = prepare(tmp_path / "checkout")
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(SCRIPT), "--cases", str(CASES), "--seed", "7", "--only", kind, "--checkout", str(root)]
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["cases"] == CASES and figures["findings"] == []
    assert {"0", "2"} <= set(figures["codes"])
