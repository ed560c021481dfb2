"""Hashes and objects as DVC has them, checked against DVC itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qualm.registry.system.dvc_files import DvcStateError, read_lock
from qualm.registry.system.dvc_objects import file_md5, folder_md5, hash_files, hash_path, holds, listing, object_path, open_repo
from tests.registry.conftest import run_dvc as dvc

pytestmark = pytest.mark.usefixtures("forked_python")
EMPTY_FOLDER = "d751713988987e9331980363e24189ce.dir"  # DVC's hash of a folder without files

STAGE = {
    "cmd": "python3 run.py",
    "wdir": "../..",
    "deps": ["src", "src/tool.py", "run.py"],
    "params": [{"specs/s/stages/one.json": None}],
    "outs": ["results/s/dir"],
    "metrics": [{"results/s/metrics.json": {"cache": False}}],
    "plots": [{"results/s/r.csv": {"cache": False, "x": "a", "y": "b"}}],
}
RUN = """
import json, pathlib
p = json.load(open("specs/s/stages/one.json"))
r = pathlib.Path("results/s"); (r / "dir/n").mkdir(parents=True, exist_ok=True)
(r / "dir/z.txt").write_text(json.dumps(p)); (r / "dir/n/q.txt").write_text("q")
(r / "metrics.json").write_text('{"m": 1}'); (r / "r.csv").write_text("a,b\\n1,2\\n")
"""
PARAMS = {"b": 1, "a": {"x": [1, 2.5, "t", None, True, 1e-7], "on": "no"}, "kind": "k", "é": "ü"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which DVC has run one stage."""
    root = tmp_path_factory.mktemp("ran")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    dvc(root, "init", "-q")
    (root / ".dvcignore").write_text("__pycache__/\n*.pyc\n!keep.pyc\n/src/only_here\n.qualm/\n")
    for name, text in {
        "src/tool.py": "print(1)",
        "src/sub/ü ñ.txt": "é",
        "src/sub/deep/b.py": "2",
        "src/sub.py": "3",
        "src/sub/A.py": "4",
        "src/sub-x": "5",
        "src/__pycache__/tool.pyc": "x",
        "src/sub/gone.pyc": "x",
        "src/sub/keep.pyc": "y",
        "src/only_here": "x",
        "src/sub/only_here": "z",
        "run.py": RUN,
        "specs/s/stages/one.json": json.dumps(PARAMS),
        "specs/s/dvc.yaml": yaml.safe_dump({"stages": {"one": STAGE}}),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "src/tool.py").chmod(0o755)
    dvc(root, "repro", "specs/s/dvc.yaml")
    return root


@pytest.fixture
def copy(ran: Path, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "copy"
    shutil.copytree(ran, root, symlinks=True)
    yield root


def entry(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_lock(root / "specs/s/dvc.lock")["one"]
    return found


@pytest.mark.slow
def test_files_and_folders_have_dvcs_hashes(ran: Path) -> None:
    with open_repo(ran) as repo:
        for item in [*entry(ran)["deps"], *entry(ran)["outs"]]:
            assert hash_path(ran, item["path"]) == hash_path(ran, item["path"], repo) == item["md5"], item["path"]
    files = hash_files(ran, "src")
    assert len(files) > 3 and folder_md5(files) == hash_path(ran, "src") and files["sub/ü ñ.txt"] == file_md5(ran / "src/sub/ü ñ.txt")


@pytest.mark.slow
def test_dvc_loses_parameters_named_size(copy: Path) -> None:
    """If this fails, DVC is mended, and the compiler need not refuse these names (`qualm.compiler.plan.layout`)."""
    file = copy / "specs/s/stages/one.json"
    file.write_text(json.dumps({**PARAMS, "image": {"size": 1}}))
    assert "Running stage" in dvc(copy, "repro", "specs/s/dvc.yaml")
    file.write_text(json.dumps({**PARAMS, "image": {"size": 2}}))
    assert "is cached - skipping run" in dvc(copy, "repro", "specs/s/dvc.yaml")
    assert json.loads((copy / "results/s/dir/z.txt").read_text())["image"] == {"size": 1}


def test_a_change_is_seen_in_spite_of_dvcs_memory(copy: Path) -> None:
    with open_repo(copy) as repo:
        for text in ("one", "two", "another"):
            (copy / "changing").write_text(text)
            assert hash_path(copy, "changing", repo) == file_md5(copy / "changing")


def test_missing_empty_and_ignored(copy: Path) -> None:
    (copy / "empty/in").mkdir(parents=True)
    (copy / "dangling").symlink_to("nowhere")
    with open_repo(copy) as repo:
        for memory in (None, repo):
            assert hash_path(copy, "nowhere", memory) is None and hash_path(copy, "dangling", memory) is None
            assert hash_path(copy, "empty", memory) == hash_path(copy, "src/__pycache__", memory) == EMPTY_FOLDER
    (copy / "empty/link").symlink_to("nowhere")
    with pytest.raises(DvcStateError, match=r"empty: DVC cannot hash it: .*No such file or directory: .*empty/link"):
        hash_path(copy, "empty")
    (copy / "src/.dvcignore").write_text("x")
    with pytest.raises(DvcStateError, match=r"\.dvcignore file should not be in collected dir path: .*src"):
        hash_path(copy, "src")


def test_links_count_as_what_they_point_at_unless_that_is_a_folder(copy: Path) -> None:
    (copy / "links").mkdir()
    (copy / "links/file").symlink_to("../run.py")
    (copy / "links/folder").symlink_to("../src")
    assert hash_files(copy, "links") == {"file": file_md5(copy / "run.py")}


def test_three_thousand_lines_of_dvcignore_take_no_time(copy: Path) -> None:
    (copy / ".dvcignore").write_text("*\n" * 3000)
    start = time.perf_counter()
    with open_repo(copy) as repo:
        assert hash_path(copy, "src") == hash_path(copy, "src", repo) == EMPTY_FOLDER
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize(("line", "words"), [(b"!\n", r"Invalid git pattern: '!'"), (b"\xff\n", r"'utf-8' codec can't decode byte 0xff")])
def test_a_dvcignore_that_dvc_rejects_is_one_message(copy: Path, line: bytes, words: str) -> None:
    (copy / ".dvcignore").write_bytes(line)
    with pytest.raises(DvcStateError, match=words), open_repo(copy):
        pass
    with pytest.raises(DvcStateError, match=words):
        hash_path(copy, "src")


def test_a_folder_without_dvc_is_hashed_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    with open_repo(tmp_path) as repo:
        assert repo is None and hash_path(tmp_path, "a", repo) == file_md5(tmp_path / "a")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "."])
def test_a_listing_that_leads_out_of_its_folder_is_none(tmp_path: Path, name: str) -> None:
    place = object_path(tmp_path, "a" * 32 + ".dir")
    place.parent.mkdir(parents=True)
    good = {"md5": "1" * 32, "relpath": "a/b"}
    place.write_text(json.dumps([good]))
    assert listing(tmp_path, "a" * 32 + ".dir") == {"a/b": "1" * 32}
    place.write_text(json.dumps([good, {"md5": "2" * 32, "relpath": name}]))
    assert listing(tmp_path, "a" * 32 + ".dir") is None and not holds(tmp_path, "a" * 32 + ".dir")
