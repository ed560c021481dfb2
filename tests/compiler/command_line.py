"""`qualm` as a user types it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from qualm.registry.plugins.rule import ROOT


def qualm(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "qualm", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
