import subprocess

import pytest

from qualm.registry.entries.entries import EntryError
from qualm.registry.entries.versions import Version, _digest, _digest_at, _place, _recorded, _recording_files, find_version
from qualm.registry.system.dvc_files import DvcStateError
from qualm.registry.system.dvc_objects import object_path

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
    assert _recording_files("registry/data/d", True) == ["registry/data/d.dvc"]
    assert _recording_files("results/s/data/d", False) == ["specs/s/dvc.lock", "dvc.lock"]
    assert _recording_files("results/s", False) == ["dvc.lock"]


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
    assert _digest_at(tmp_path, "results/s/data/d", files, git("rev-parse", "HEAD")) == NEW
    assert _digest_at(tmp_path, "results/s/data/d", files, git("rev-parse", "HEAD~1")) == OLD
    assert _digest_at(tmp_path, "results/s/data/other", files, "HEAD") is None


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


FIRST, SECOND, THIRD = "0123456789abcdef" * 2, "b2" * 16, "b2b2b2" + "c3" * 13
PLACE = "registry/data/d"


@pytest.fixture
def recorded(repo, git):
    """A project with two versions of an entry in git, one of a commit before there was any, and a third in the working tree alone."""
    git(repo, "commit", "-q", "--allow-empty", "-m", "none")
    (repo / "registry/data").mkdir(parents=True)
    for md5 in (FIRST, SECOND, THIRD):
        if md5 != FIRST:
            git(repo, "add", "-A")
            git(repo, "commit", "-qm", md5)
        (repo / f"{PLACE}.dvc").write_text(f"outs:\n- path: d\n  md5: {md5}.dir\n")
    return repo


@pytest.mark.parametrize(
    ("when", "md5"),
    [
        ("HEAD", SECOND), ("HEAD~1", FIRST), (FIRST[:6], FIRST), (FIRST[:16].upper(), FIRST), (f"{SECOND}.dir", SECOND),
        ("b2b2b2b2", SECOND), ("b2b2b2c", THIRD),
    ],
)  # fmt: skip
def test_a_revision_or_the_beginning_of_a_digest(recorded, when, md5):
    assert _recorded(recorded, PLACE, True, when) == f"{md5}.dir"


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("HEAD~2", f"{PLACE}: nothing on record at HEAD~2; it was not tracked there, or had another name"),
        (FIRST[:5], "'01234' is neither a git revision here nor a digest of at least 6 characters"),
        ("01234g", "'01234g' is neither a git revision here nor a digest"),
        ("ffffff", f"'ffffff' fits no version of {PLACE}; git has on record: 0123456789, b2b2b2b2b2, b2b2b2c3c3"),
        ("b2b2b2", "'b2b2b2' fits 2 versions of registry/data/d"),
    ],
)
def test_what_is_no_version(recorded, when, said):
    with pytest.raises(EntryError) as caught:
        _recorded(recorded, PLACE, True, when)
    assert str(caught.value).startswith(said)


def test_an_entry_is_a_name_and_what_lies_here_a_path(recorded, monkeypatch):
    monkeypatch.chdir(recorded)
    for name in ("d", "here", "results/x"):
        (recorded / name).mkdir(parents=True)
    found = {name: _place(recorded, name) for name in ("d", "here", "elsewhere", "results/x", "")}
    assert found == {
        "d": (PLACE, True),
        "here": ("here", False),
        "elsewhere": ("registry/data/elsewhere", True),
        "results/x": ("results/x", False),
        "": (".", False),
    }
    with pytest.raises(EntryError, match=r"\.\./x: lies outside of .*; data are compared within one project"):
        _place(recorded, "../x")


def test_a_version_on_record_is_read_from_the_cache_or_a_remote_on_this_disk(recorded, monkeypatch):
    monkeypatch.chdir(recorded)
    with pytest.raises(EntryError, match=rf"d@HEAD: version {SECOND[:10]} is on record, but the list of its files is in neither"):
        find_version(recorded, "d@HEAD")
    for store, md5, name in ((recorded / ".dvc/cache", SECOND, "cached"), (recorded / "registry/store", FIRST, "pushed")):
        listing = object_path(store, f"{md5}.dir")
        listing.parent.mkdir(parents=True)
        listing.write_text(f'[{{"relpath": "{name}", "md5": "{OLD}"}}]')
    cached, pushed = find_version(recorded, "d@HEAD"), find_version(recorded, f"d@{FIRST[:8]}")
    assert (cached.name, cached.md5, cached.files, cached.folder) == ("d", f"{SECOND}.dir", {"cached": OLD}, None)
    assert pushed.files == {"pushed": OLD} and pushed.stores == (recorded / ".dvc/cache", recorded / "registry/store")
    assert object_path(recorded / ".dvc/cache", FIRST) == recorded / ".dvc/cache/files/md5" / FIRST[:2] / FIRST[2:]
