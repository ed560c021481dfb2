"""Files that are whole or as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qualm.registry.system import atomic

DURABLE = pytest.mark.parametrize("durable", [False, True])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path: Path) -> None:
    for _ in range(2):
        assert atomic.create_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b" and (tmp_path / "a" / "b").is_dir()


@DURABLE
def test_a_file_takes_its_place_and_leaves_nothing_beside_it(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a" / "b.txt"
    atomic.write_text(path, "é\r\n", durable)
    atomic.write_bytes(path, "ü\n".encode(), durable)
    assert path.read_bytes() == "ü\n".encode()
    assert names(path.parent) == ["b.txt"]


@DURABLE
def test_an_error_leaves_the_file_as_it_was(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "b.txt"
    path.write_text("before")
    with pytest.raises(KeyError), atomic.file(path, durable) as partial:
        partial.write_text("half")
        assert path.read_text() == "before"
        raise KeyError
    assert names(tmp_path) == ["b.txt"]
    assert path.read_text() == "before"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text("before")
    with pytest.raises(OSError, match="No space left") as caught, atomic.file(path) as partial:
        partial.symlink_to("/dev/full")
        partial.write_text("all of it")
    assert caught.value.filename == str(path)
    assert names(tmp_path) == ["b.txt"]
    assert path.read_text() == "before"


def test_an_error_names_the_file_and_not_the_partial_one(tmp_path: Path) -> None:
    with pytest.raises(PermissionError) as caught, atomic.file(tmp_path / "b.txt") as partial:
        raise PermissionError(13, "Permission denied", str(partial))
    assert caught.value.filename == str(tmp_path / "b.txt")
    with pytest.raises(OSError, match="another") as other, atomic.file(tmp_path / "b.txt"):
        raise OSError("another library's")
    assert other.value.filename is None


def test_a_scratch_folder_lies_elsewhere_where_nothing_can_be_written(tmp_path: Path) -> None:
    assert atomic.scratch_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b" and (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    elsewhere = atomic.scratch_folder(tmp_path / "file" / "b")
    assert elsewhere.is_dir() and not elsewhere.is_relative_to(tmp_path)
    script = "from pathlib import Path\nfrom qualm.registry.system import atomic\nprint(atomic.scratch_folder(Path('/proc/none')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() and not Path(done.stdout.strip()).exists()  # gone with its process


def test_a_kill_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text("before")
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom qualm.registry.system import atomic\n"
        "with atomic.file(Path(sys.argv[1]), durable=True) as partial:\n"
        "    partial.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "before"
    assert [name for name in names(tmp_path) if name != "b.txt"] == [next(tmp_path.glob(f".b.txt.*{atomic.PARTIAL}")).name]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    with atomic.file(path) as one, atomic.file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("stands", ["nothing", "folder", "link", "file"])
def test_a_folder_takes_the_place_of_what_stands_there(tmp_path: Path, stands: str) -> None:
    finished, target, elsewhere = tmp_path / "scratch" / "new", tmp_path / "out" / "data", tmp_path / "elsewhere"
    for folder in (finished, elsewhere, target.parent):
        folder.mkdir(parents=True)
    (finished / "x").write_text("new")
    (elsewhere / "x").write_text("another's")
    if stands == "folder":
        target.mkdir()
        (target / "y").write_text("old")
    elif stands == "link":
        target.symlink_to(elsewhere)
    elif stands == "file":
        target.write_text("old")
    atomic.publish(finished, target)
    assert not target.is_symlink()
    assert names(target) == ["x"]
    assert (names(target.parent), names(finished.parent)) == (["data"], [])
    assert (elsewhere / "x").read_text() == "another's"


def test_a_file_takes_the_place_of_a_file_and_never_of_a_folder(tmp_path: Path) -> None:
    target, folder = tmp_path / "out", tmp_path / "folder"
    folder.mkdir()
    for text in ("first", "second"):
        (tmp_path / "new").write_text(text)
        with pytest.raises(IsADirectoryError):
            atomic.publish(tmp_path / "new", folder)
        atomic.publish(tmp_path / "new", target)
        assert target.read_text() == text
    assert names(tmp_path) == ["folder", "out"]


def test_what_stood_there_is_put_back_where_the_move_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished, target = tmp_path / "new", tmp_path / "data"
    finished.mkdir()
    target.mkdir()
    (target / "y").write_text("old")
    move = os.replace

    def fails(source: str | Path, place: str | Path) -> None:
        if Path(source) == finished:
            raise PermissionError(13, "Permission denied")
        move(source, place)

    monkeypatch.setattr(Path, "replace", lambda path, place: fails(path, place))
    with pytest.raises(PermissionError):
        atomic.publish(finished, target)
    assert names(target) == ["y"]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_another_file_system_is_crossed_by_a_copy(tmp_path: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if Path(other).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("one file system")
        (Path(other) / "new").mkdir()
        (Path(other) / "new" / "x").write_text("new")
        (tmp_path / "data").mkdir()
        atomic.publish(Path(other) / "new", tmp_path / "data")
        (Path(other) / "file").write_text("text")
        atomic.publish(Path(other) / "file", tmp_path / "file")
        assert names(Path(other)) == []
    assert names(tmp_path) == ["data", "file"]
    assert names(tmp_path / "data") == ["x"]
