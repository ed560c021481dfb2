"""A DVC remote as a store of objects: a folder on this disk, spoken to by DVC itself."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from qualm.registry.system.dvc_files import DvcStateError
from qualm.registry.system.dvc_objects import object_path
from qualm.registry.system.dvc_remote import RemoteStore


def put_object(cache: Path, data: bytes) -> str:
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    file = object_path(cache, md5)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.chmod(0o444)
    return md5


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repo"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n    remote = store\n['remote \"store\"']\n    url = ../../far\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (tmp_path / "far").mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def far(root: Path) -> Path:
    return root.parent / "far"


def test_objects_go_there_and_come_back(root: Path, far: Path) -> None:
    cache = root / ".dvc/cache"
    one, two = put_object(cache, b"one"), put_object(cache, b"two")
    with RemoteStore(root, "store") as store:
        assert store.has([]) == set() and store.has([one, two]) == set()
        assert store.put([]) == set() and store.put([one, two]) == set()
        assert store.has([one, two, "0" * 32]) == {one, two}
        assert object_path(far, one).read_bytes() == b"one"
        object_path(cache, one).unlink()
        store.get([one, "0" * 32])
        assert object_path(cache, one).read_bytes() == b"one"


def test_nothing_is_fetched_where_nothing_is_there(root: Path) -> None:
    with RemoteStore(root, "store") as store:
        store.get(["0" * 32])
        store.get([])
    assert not list((root / ".dvc/cache").rglob("00*/*"))


def test_what_is_not_in_the_cache_is_not_there_afterwards(root: Path, far: Path) -> None:
    one = put_object(root / ".dvc/cache", b"one")
    with RemoteStore(root, "store") as store:
        store.put([one, "0" * 32])
        assert store.has([one, "0" * 32]) == {one}


def test_a_damaged_object_is_not_replaced_until_it_is_taken_away(root: Path, far: Path) -> None:
    one = put_object(root / ".dvc/cache", b"one")
    with RemoteStore(root, "store") as store:
        store.put([one])
        there = object_path(far, one)
        there.chmod(0o644)
        there.write_bytes(b"x")
        there.chmod(0o444)  # by which DVC trusts it
        assert store.put([one]) == set() and there.read_bytes() == b"x"
        store.remove(one)
        assert store.has([one]) == set() and not there.exists()
        assert store.put([one]) == set() and there.read_bytes() == b"one"


def test_a_damaged_object_does_not_come_into_the_cache(root: Path, far: Path) -> None:
    one = put_object(far, b"one")
    there = object_path(far, one)
    there.chmod(0o644)
    there.write_bytes(b"x")
    with RemoteStore(root, "store") as store:
        store.get([one])
    assert not object_path(root / ".dvc/cache", one).exists()


def test_records_of_runs_are_counted(root: Path, far: Path) -> None:
    with RemoteStore(root, "store") as store:
        assert store.put_runs() == 0
    key = "ab" * 32
    record = root / ".dvc/cache/runs" / key[:2] / key / ("cd" * 32)
    record.parent.mkdir(parents=True)
    record.write_text("cmd: x\n")
    with RemoteStore(root, "store") as store:
        assert store.put_runs() == 1
    assert (far / "runs" / key[:2] / key / ("cd" * 32)).read_text() == "cmd: x\n"


def test_a_remote_that_cannot_be_used_is_named(root: Path, far: Path) -> None:
    with pytest.raises(DvcStateError, match=r"^remote 'other': .*other"):
        RemoteStore(root, "other")
    far.rmdir()
    far.write_text("a file")
    one = put_object(root / ".dvc/cache", b"one")
    with RemoteStore(root, "store") as store, pytest.raises(DvcStateError, match=r"^remote 'store': .+"):
        store.remove(one)


@pytest.mark.slow
def test_it_holds_dvc_s_lock_meanwhile(root: Path) -> None:
    with RemoteStore(root, "store"):
        assert (root / ".dvc/tmp/lock").is_file()
        with pytest.raises(DvcStateError, match="Unable to acquire lock"), RemoteStore(root, "store"):
            pass
    with RemoteStore(root, "store"):
        pass
