"""Qualm as on macOS and on Windows, simulated: what these lack is not there for our modules. No such machine has run it yet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_light import SPEC
from tests.end_to_end.test_recorded_elsewhere import log
from tests.support.processes.forks import forks

ROOT = Path(__file__).resolve().parents[2]
PRELUDE = ROOT / "tests/support/other_system"
COMMANDS = """
import io, json, runpy, sys
from contextlib import redirect_stdout
ended = []
commands = json.loads(sys.argv[1])
for command in commands:
    sys.argv[1:], code = command, 0
    with redirect_stdout(io.StringIO()) as said:
        try:
            runpy.run_module("qualm", run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    ended.append((code, bool(said.getvalue())))
print(json.dumps(ended))
"""
"""Runs the commands of its argument one after the other, as it takes seconds to import what they need; prints how each ended."""


def environment(system: str) -> dict[str, str]:
    path = os.pathsep.join([forks().folder, str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "true", "QUALM_PROGRESS": "0"}
    return plain if system == "linux" else {**plain, "PYTHONPATH": str(PRELUDE), "QUALM_TEST_SYSTEM": system}


def python(system: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(forks().python), *arguments], cwd=folder, env=environment(system), capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{system}: {arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("system", "lacks"), [("darwin", "sched_getaffinity"), ("win32", "fork")])
def test_the_simulation_takes_away_what_the_system_lacks(tmp_path: Path, system: str, lacks: str) -> None:
    code = (
        "from qualm.registry import machine; import os\n"
        f"print(hasattr(machine.os, {lacks!r}), hasattr(os, {lacks!r}), machine.sys.platform, machine.LINUX, machine.usable_cores())"
    )
    assert python(system, tmp_path, "-c", code).split() == ["False", "True", system, "False", str(os.cpu_count())]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_commands_that_run_nothing(system: str) -> None:
    commands = [["--help"], ["ls", "metrics"], ["validate"], ["compile", "--check", "quickstart"], ["plan"]]
    assert json.loads(python(system, ROOT, "-c", COMMANDS, json.dumps(commands))) == [[0, True]] * len(commands)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_every_module_can_be_imported(tmp_path: Path, system: str) -> None:
    assert python(system, tmp_path, "-m", "import_all", str(ROOT)) == ""


@pytest.mark.slow
def test_results_are_the_same_bytes_on_every_system(tmp_path: Path) -> None:
    """From `qualm init` by way of a log of somebody's answers to a report."""
    log(tmp_path / "log")
    bytes_of = {}
    for system in ("linux", "darwin", "win32"):
        home = tmp_path / system
        home.mkdir()
        python(system, home, "-m", "qualm", "init", "mine")
        root = home / "mine"
        (root / "specs/theirs.yaml").write_text(SPEC)
        added = ("data", "add", "science_log", "--from", str(tmp_path / "log"), "--card", "lm_eval_samples")
        checked = ("data", "check", "science_log", "-O", "task=science")
        for command in (added, checked, ("compile", "theirs"), ("plan", "theirs"), ("run", "theirs"), ("show", "theirs")):
            said = python(system, root, "-m", "qualm", *command)
        assert "accuracy" in said
        files = [file for file in (root / "results/theirs").rglob("*") if file.is_file()]
        bytes_of[system] = {f.relative_to(root).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    assert len(bytes_of["linux"]) > 10
    assert bytes_of["darwin"] == bytes_of["linux"] and bytes_of["win32"] == bytes_of["linux"]
