"""Inputs of a stage are compared with their recorded hashes, in a repository that DVC itself has filled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualm.registry.system.dvc_files import find_records
from qualm.runners.runtime.intact import check_inputs, input_paths
from qualm.runners.runtime.stage import StageError
from qualm.runners.runtime.status import STARTED_BY_DVC

pytestmark = pytest.mark.usefixtures("forked_python")
STAGE = SimpleNamespace(inputs={"datasets": {"d": "data/d"}, "files": ["data/a.txt", {"x": "data/none"}], "n": 3})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder and a file that DVC tracks, as a stage sees them that DVC has started."""
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    analytics = false\n    no_scm = true\n")
    (tmp_path / "data/d").mkdir(parents=True)
    (tmp_path / "data/d/one.txt").write_text("one")
    (tmp_path / "data/a.txt").write_text("two")
    subprocess.run([sys.executable, "-m", "dvc", "add", "-q", "data/d", "data/a.txt"], cwd=tmp_path, check=True)
    monkeypatch.setenv(STARTED_BY_DVC, "s")
    monkeypatch.delenv("QUALM_STATUS_FILE", raising=False)
    return tmp_path


def damage(file: Path, text: str) -> None:
    """Change the bytes of a file, and neither its size nor its times, as a failing disk does."""
    state = file.stat()
    file.chmod(0o644)
    file.write_text(text)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_whole_inputs_pass_and_all_of_them_are_looked_at(root: Path) -> None:
    assert list(input_paths(STAGE.inputs)) == ["data/d", "data/a.txt", "data/none", "3"]
    assert [record.path for record in find_records(root, input_paths(STAGE.inputs))] == ["data/d", "data/a.txt"]
    check_inputs(STAGE, root)  # type: ignore[arg-type]
    assert not (root / ".qualm").exists()


def test_damaged_ones_are_all_set_aside_and_named(root: Path) -> None:
    damage(root / "data/d/one.txt", "0ne")
    damage(root / "data/a.txt", "tw0")
    with pytest.raises(StageError) as error:
        check_inputs(STAGE, root)  # type: ignore[arg-type]
    message = str(error.value)
    assert "data/d (recorded " in message and "now in .qualm/damaged/data__d); data/a.txt (recorded " in message
    assert message.endswith("restored, fetched or made again when this is run again")
    assert (root / ".qualm/damaged/data__d/d/one.txt").read_text() == "0ne" and not (root / "data/d").exists()
    assert (root / ".qualm/damaged/data__a.txt/a.txt").read_text() == "tw0" and not (root / "data/a.txt").exists()


def test_what_is_missing_or_was_changed_by_hand_is_dvcs_affair(root: Path) -> None:
    (root / "data/d/one.txt").unlink()
    (root / "data/d").rmdir()
    (root / "data/a.txt").write_text("edited")
    check_inputs(STAGE, root)  # type: ignore[arg-type]
    assert (root / "data/a.txt").read_text() == "edited"


def test_what_a_person_runs_reads_what_lies_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTED_BY_DVC)
    damage(root / "data/a.txt", "tw0")
    check_inputs(STAGE, root)  # type: ignore[arg-type]
    assert (root / "data/a.txt").read_text() == "tw0"


def test_qualm_run_is_told_and_repairs_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "status").write_text("")
    monkeypatch.setenv("QUALM_STATUS_FILE", str(root / "status"))
    damage(root / "data/a.txt", "tw0")
    with pytest.raises(StageError, match="made again now"):
        check_inputs(STAGE, root)  # type: ignore[arg-type]
    assert '"damaged"' in (root / "status").read_text()
