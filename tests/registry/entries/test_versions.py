import subprocess

import pytest

from qualm.registry.dvc.config import DvcStateError
from qualm.registry.entries.entries import EntryError
from qualm.registry.entries.versions import Version, _at, _digest, _files, _recorded

OLD, NEW = "0" * 31 + "1", "0" * 31 + "2"
LOCK = "schema: '2.0'\nstages:\n  data:\n    cmd: x\n    outs:\n    - path: results/s/data/d\n      md5: '{md5}'\n"


def pointer(md5):
    return f"outs:\n- path: d\n  md5: '{md5}'\n"


def test_the_digest_on_record_in_a_pointer_or_a_lock():
    assert _digest(pointer(OLD), "registry/data/d", "registry/data/d.dvc at 0123456789") == OLD
    assert _digest(LOCK.format(md5=NEW), "results/s/data/d", "dvc.lock") == NEW
    assert _digest(LOCK.format(md5=NEW), "results/s/data/other", "dvc.lock") is None
    with pytest.raises(DvcStateError):
        _digest("outs: []\n", "d", "d.dvc")


def test_files_that_may_record_it():
    assert _files(None, "registry/data/d", True) == ["registry/data/d.dvc"]
    assert _files(None, "results/s/data/d", False) == ["specs/s/dvc.lock", "dvc.lock"] and _files(None, "results/s", False) == ["dvc.lock"]


def test_the_digest_of_a_commit_is_read_from_git(tmp_path):
    def git(*words):
        done = subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    for md5 in (OLD, NEW):
        (tmp_path / "dvc.lock").write_text(LOCK.format(md5=md5))
        git("add", ".")
        git("commit", "-qm", md5)
    files = ["specs/s/dvc.lock", "dvc.lock"]
    assert _at(tmp_path, "results/s/data/d", files, git("rev-parse", "HEAD")) == NEW
    assert _at(tmp_path, "results/s/data/d", files, git("rev-parse", "HEAD~1")) == OLD
    assert _at(tmp_path, "results/s/data/other", files, "HEAD") is None


def test_a_repository_that_git_does_not_read(tmp_path):
    with pytest.raises(EntryError, match="'HEAD' cannot be looked up: git rev-parse: fatal: not a git repository"):
        _recorded(tmp_path, "registry/data/d", True, "HEAD")


def version(tmp_path, **changes):
    made = {"label": "d@1", "name": "d", "md5": OLD, "files": {"a/x": NEW}, "card": None, "folder": None, "stores": (tmp_path / "store",)}
    return Version(**{**made, **changes})


def test_a_file_that_no_store_has(tmp_path):
    with pytest.raises(EntryError, match="d@1: a/x is not in DVC's cache"):
        version(tmp_path).file("a/x")
    assert version(tmp_path, folder=tmp_path).file("a/x") == tmp_path / "a/x"


def test_a_version_is_laid_out_from_the_cache_and_gone_afterwards(tmp_path):
    import hashlib

    data = b"content"
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    place = tmp_path / "store" / "files" / "md5" / md5[:2] / md5[2:]
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    found = version(tmp_path, files={"a/x": md5})
    with found.laid_out(tmp_path) as folder:
        assert (folder / "a" / "x").read_bytes() == data and folder.name.startswith("version-")
    assert not folder.exists() and place.read_bytes() == data
    place.write_bytes(b"rotten!")
    with pytest.raises(EntryError, match="a/x is damaged in DVC's cache"):
        found.file("a/x")
