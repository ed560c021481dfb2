"""Files that are none, or hold what no file should: the command line says one line and exits 2."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.processes.command_line import qualm

ROOT = Path(__file__).parents[2]
MANY = ", ".join(f"{i}.5" for i in range(5000))
SWEEP = f"qualm: 1\nname: z\ndatasets: {{s: {{card: synthetic_scenes}}}}\nperturbations: [blur: {{radius: [{MANY}]}}]"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copy(ROOT / "specs/quickstart.yaml", tmp_path / "specs")
    return tmp_path


def lay_out(path: Path, what: str) -> None:
    if what == "pipe":
        os.mkfifo(path)
    elif what == "endless":
        path.symlink_to("/dev/zero")
    elif what == "loop":
        path.symlink_to(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.write_text(what)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("pipe", "expected a file, got a pipe"),
        ("endless", "expected a file, got a device"),
        ("loop", "Too many levels of symbolic links"),
        ("folder", "expected a file, got a folder"),
        ('extends: "a\\0b"\n', "expected the file name of another spec"),
        (f"extends: {'a' * 5000}\n", "expected the file name of another spec"),
        ("extends: ../specs/./z\n", "a circle"),
        ("a: 1\n" * 60_000, "there may be more: 200 mistakes are named at once"),
        ("[" * 100_000, "maximum nesting depth"),
        (SWEEP, "at most 500 points"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)  # fmt: skip
def test_a_spec_that_is_none(checkout: Path, what: str, expected: str) -> None:
    lay_out(checkout / "specs/z.yaml", what)
    done = qualm("validate", "z", cwd=checkout)
    assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr
    assert qualm("validate", "quickstart", cwd=checkout).returncode == 0  # one beside it is not harmed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["params.yaml", "qualm.toml", "dvc.lock"])
@pytest.mark.parametrize("what", ["pipe", "endless", "[" * 5000, "\0"])
def test_a_projects_own_files_that_are_none(checkout: Path, name: str, what: str) -> None:
    (checkout / name).unlink(missing_ok=True)
    if name == "params.yaml" and what in ("pipe", "endless"):
        return  # without it there is no project
    lay_out(checkout / name, what)
    done = qualm("plan", "quickstart", cwd=checkout)
    assert done.returncode == 2 and name in done.stderr and "Traceback" not in done.stderr
