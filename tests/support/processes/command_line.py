"""`qualm` as a user types it."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from qualm.compiler.commands.main import main
from qualm.registry.plugins.registry import ROOT


def qualm(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which saves the second in which another would start."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys.modules["__main__"], "__package__", None)  # else Click takes `python -m pytest` for the name
        patch.setattr(sys, "argv", ["qualm", *arguments])
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess([*arguments], code, out.getvalue(), err.getvalue())
