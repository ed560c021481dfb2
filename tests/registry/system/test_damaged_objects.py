"""Damage to what DVC keeps: found by every byte, set aside whole, nothing deleted. In a repository that DVC itself has filled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from qualm.registry.system.dvc_files import RecordedOutput, find_records, locked_outputs
from qualm.registry.system.dvc_objects import DAMAGED, damaged_objects, hash_path, is_damaged, object_path, open_repo, set_aside

pytestmark = pytest.mark.usefixtures("forked_python")
FILE, FOLDER = "registry/data/one.txt", "registry/data/many"
MEMBERS = {"a.txt": b"a", "sub/b.txt": b"b", "sub/same.txt": b"a"}


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("added")
    (root / ".dvc").mkdir()
    (root / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (root / ".dvcignore").write_text("*.pyc\n.qualm/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for name, data in {FILE: b"one", **{f"{FOLDER}/{name}": data for name, data in MEMBERS.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    subprocess.run([sys.executable, "-m", "dvc", "add", "-q", FILE, FOLDER], cwd=root, check=True)
    return root


@pytest.fixture
def root(added: Path, tmp_path: Path) -> Path:
    shutil.copytree(added, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def folder_md5(root: Path) -> str:
    (record,) = find_records(root, [FOLDER])
    return record.md5


def cached(root: Path, md5: str) -> Path:
    return object_path(root / ".dvc/cache", md5)


def spoil(file: Path, data: bytes = b"x") -> None:
    file.chmod(0o644)
    file.write_bytes(data)


def test_what_is_on_record_of_a_path_or_of_what_it_lies_in(root: Path) -> None:
    one, many = RecordedOutput(FILE, md5(b"one")), RecordedOutput(FOLDER, folder_md5(root))
    assert many.md5.endswith(".dir")
    assert find_records(root, [FILE, f"{FOLDER}/sub/b.txt", FOLDER, FILE]) == [one, many]
    assert find_records(root, ["registry/data", "README.md", "registry/cards/x.yaml"]) == []


def lock(path: Path, outs: dict[str, str | None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"path": name, **({"md5": value} if value else {})} for name, value in outs.items()]
    path.write_text(yaml.safe_dump({"schema": "2.0", "stages": {"make": {"cmd": "x", "outs": entries}, "bare": {"cmd": "y"}}}))


def test_results_are_on_record_in_the_spec_s_lock_and_then_in_the_default_s(root: Path) -> None:
    one, two, three, four = (f"{n}" * 32 for n in range(1, 5))
    lock(root / "specs/s/dvc.lock", {"results/s/a": f"{one}.dir", "results/s/none": None})
    lock(root / "dvc.lock", {"results/s/a": f"{two}.dir", "results/s/b": three, "results/c": four})
    assert locked_outputs(root / "specs/s/dvc.lock") == {"results/s/a": f"{one}.dir"}
    assert find_records(root, ["results/s/a/x/y"]) == [RecordedOutput("results/s/a", f"{one}.dir")]
    assert find_records(root, ["results/s/b", "results/s/none", "results/other/b"]) == [RecordedOutput("results/s/b", three)]
    assert find_records(root, ["results/s", "elsewhere/s/a"]) == []


def test_content_is_read_anew_and_without_what_dvc_ignores(root: Path) -> None:
    assert hash_path(root, FILE) == md5(b"one") and hash_path(root, "registry/data/none") is None
    with open_repo(root) as repo:
        assert hash_path(root, FOLDER) == folder_md5(root) == hash_path(root, FOLDER, repo)
    (root / FOLDER / "x.pyc").write_text("ignored")
    assert hash_path(root, FOLDER) == folder_md5(root)
    before = (root / FOLDER / "a.txt").stat()
    spoil(root / FOLDER / "a.txt", b"z")
    os.utime(root / FOLDER / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    rows = [{"md5": md5(b"z" if name == "a.txt" else data), "relpath": name} for name, data in sorted(MEMBERS.items())]
    assert hash_path(root, FOLDER) == f"{md5(json.dumps(rows).encode())}.dir"
    with open_repo(root) as repo:
        assert hash_path(root, FOLDER, repo) == folder_md5(root), "DVC goes by size, time and inode"


def test_an_object_is_damaged_if_its_bytes_are_not_those_of_its_name(root: Path) -> None:
    file, listing = cached(root, md5(b"one")), cached(root, folder_md5(root))
    assert not is_damaged(file, md5(b"one")) and not is_damaged(listing, folder_md5(root))
    spoil(file)
    assert is_damaged(file, md5(b"one"))


def test_damaged_objects_of_a_folder_are_its_files_and_its_list(root: Path) -> None:
    whole = folder_md5(root)
    assert damaged_objects(root, whole) == []
    spoil(cached(root, md5(b"a")))
    cached(root, md5(b"b")).unlink()
    assert damaged_objects(root, whole) == [cached(root, md5(b"a"))]
    assert damaged_objects(root, md5(b"a")) == [cached(root, md5(b"a"))] and damaged_objects(root, md5(b"b")) == []
    spoil(cached(root, whole), b"no list")
    assert damaged_objects(root, whole) == [cached(root, whole)]


def test_set_aside_whole_with_its_objects(root: Path) -> None:
    record = RecordedOutput(FOLDER, folder_md5(root))
    spoil(cached(root, md5(b"a")), b"half")
    aside = set_aside(root, record)
    assert aside == root / DAMAGED / "registry__data__many"
    assert not (root / FOLDER).exists() and not cached(root, md5(b"a")).exists() and cached(root, md5(b"b")).is_file()
    assert (aside / md5(b"a")).read_bytes() == b"half"
    assert {str(p.relative_to(aside / "many")) for p in (aside / "many").rglob("*") if p.is_file()} == set(MEMBERS)


def test_what_lies_in_the_tree_may_stay(root: Path) -> None:
    spoil(cached(root, md5(b"one")), b"half")
    aside = set_aside(root, RecordedOutput(FILE, md5(b"one")), tree=False)
    assert (root / FILE).read_bytes() == b"one" and [p.name for p in aside.iterdir()] == [md5(b"one")]


def test_a_link_is_taken_away_and_not_what_it_points_at(root: Path) -> None:
    (root / FILE).unlink()
    (root / FILE).symlink_to(cached(root, md5(b"one")))
    aside = set_aside(root, RecordedOutput(FILE, md5(b"one")))
    assert not (root / FILE).is_symlink() and cached(root, md5(b"one")).read_bytes() == b"one" and list(aside.iterdir()) == []


def test_each_time_has_a_folder_of_its_own(root: Path) -> None:
    record = RecordedOutput("results/s/a.json", "0" * 32)
    names = []
    for text in ("1", "2", "3"):
        (root / "results/s").mkdir(parents=True, exist_ok=True)
        (root / record.path).write_text(text)
        names.append(set_aside(root, record).name)
    assert names == ["results__s__a.json", "results__s__a.json.1", "results__s__a.json.2"]
    assert (root / DAMAGED / "results__s__a.json.2/a.json").read_text() == "3"
    assert list(set_aside(root, record).iterdir()) == []  # nothing was there
