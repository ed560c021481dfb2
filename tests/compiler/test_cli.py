"""The command line as a whole: its help, and one message for whatever is foreseen."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

from compiler import cli, commands
from registry.plugins import ROOT
from tests.compiler.command_line import qualm


def test_help_teaches() -> None:
    done = qualm("--help")
    assert done.returncode == 0
    for command in (
        "validate",
        "plan",
        "compile",
        "run",
        "diff",
        "ls",
        "graph",
        "lineage",
        "schema",
        "new",
        "show",
        "compare",
        "verify",
        "cache",
        "data",
    ):
        assert command in done.stdout


def test_every_command_that_is_written_is_listed() -> None:
    modules = [importlib.import_module(f"compiler.commands.{m.name}") for m in pkgutil.iter_modules(commands.__path__)]
    written = {
        f for m in modules for name, f in vars(m).items() if isinstance(f, FunctionType) and f.__module__ == m.__name__ and name[0] != "_"
    }
    assert {command.callback for command in cli.app.registered_commands} == written


def test_a_damaged_lock_is_one_message(tmp_path: Path) -> None:
    from tests.end_to_end.clone import make_clone

    clone = make_clone(tmp_path / "clone", "quickstart")
    (clone.root / "dvc.lock").write_text("schema: '2.0'\nstages: [\n")
    done = clone.qualm("plan", check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "dvc.lock: not YAML" in done.stderr


def test_outside_of_a_checkout(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); from compiler.cli import main; sys.argv = ['qualm', 'plan']; main()",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "change into a checkout" in done.stderr
