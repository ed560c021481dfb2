"""Our reading of DVC's state, checked against DVC itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.registry.dvc.config import DvcStateError
from qualm.registry.dvc.ignore import Ignore
from qualm.registry.dvc.state import Checkout, dir_md5, file_md5, holds, listing, object_path, read_lock
from tests.registry.conftest import run_dvc as dvc

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


def test_files_and_folders_have_dvcs_hashes(ran: Path) -> None:
    checkout = Checkout(ran)
    for item in [*entry(ran)["deps"], *entry(ran)["outs"]]:
        assert checkout.path_md5(item["path"]) == item["md5"], item["path"]
    assert dir_md5(ran / "src", Ignore(ran)) == checkout.path_md5("src")
    assert dir_md5(ran / "src") != checkout.path_md5("src")  # what is ignored counts where nothing is ignored
    assert file_md5(ran / "run.py") == checkout.path_md5("run.py")


def test_lock_reads_as_dvc_reads_it(ran: Path) -> None:
    from dvc.utils.serialize import load_yaml

    assert read_lock(ran / "specs/s/dvc.lock") == load_yaml(ran / "specs/s/dvc.lock")["stages"]
    assert entry(ran)["params"] == {"specs/s/stages/one.json": PARAMS}
    assert [d for d in entry(ran)["deps"] if d.get("isexec")] == [next(d for d in entry(ran)["deps"] if d["path"] == "src/tool.py")]


def test_dvc_loses_parameters_named_size(copy: Path) -> None:
    """The trap this module's head tells of. If this fails, DVC is mended and the compiler's guard can go."""
    file = copy / "specs/s/stages/one.json"
    file.write_text(json.dumps({**PARAMS, "image": {"size": 1}}))
    assert "Running stage" in dvc(copy, "repro", "specs/s/dvc.yaml")
    file.write_text(json.dumps({**PARAMS, "image": {"size": 2}}))
    assert "is cached - skipping run" in dvc(copy, "repro", "specs/s/dvc.yaml")
    assert json.loads((copy / "results/s/dir/z.txt").read_text())["image"] == {"size": 1}


def test_hashes_are_remembered_and_never_stale(copy: Path) -> None:
    file = copy / "run.py"
    old = time.time() - 100
    with Checkout(copy) as checkout:
        first = checkout.path_md5("run.py")
    assert str(file) not in (json.loads((copy / ".qualm/hashes.json").read_text()) if (copy / ".qualm/hashes.json").exists() else {})
    time.sleep(2.1)
    with Checkout(copy) as checkout:
        assert checkout.path_md5("run.py") == first
    assert str(file) in json.loads((copy / ".qualm/hashes.json").read_text())
    status = file.stat()
    file.write_text(RUN.replace("q.txt", "p.txt"))  # same size, same place, and its old times
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Checkout(copy).path_md5("run.py") != first
    os.utime(file, (old, old))
    (copy / ".qualm/hashes.json").write_text("[1, 2")
    assert Checkout(copy).path_md5("run.py") == file_md5(file)


def test_a_checkout_that_cannot_be_written_is_read(copy: Path) -> None:
    shutil.rmtree(copy / ".qualm", ignore_errors=True)
    (copy / ".qualm").write_text("no folder can be made here")
    for file in copy.glob("*.py"):
        os.utime(file, (0, 0))
    with Checkout(copy) as checkout:
        assert checkout.path_md5("run.py") == file_md5(copy / "run.py")


def test_missing_empty_and_ignored(copy: Path) -> None:
    checkout = Checkout(copy)
    assert checkout.path_md5("nowhere") is None and checkout.dep("nowhere") is None
    assert checkout.dep("nowhere", "ab" * 16) == {"path": "nowhere", "hash": "md5", "md5": "ab" * 16}
    (copy / "empty/in").mkdir(parents=True)
    assert checkout.path_md5("empty") == EMPTY_FOLDER
    assert checkout.path_md5("src/__pycache__") == EMPTY_FOLDER
    (copy / "src/.dvcignore").write_text("x")
    with pytest.raises(DvcStateError, match=r"no \.dvcignore inside"):
        Checkout(copy).path_md5("src")
    (copy / "empty/link").symlink_to("nowhere")
    with pytest.raises(DvcStateError, match="a link to nothing"):
        Checkout(copy).path_md5("empty")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "."])
def test_a_listing_that_leads_out_of_its_folder_is_none(tmp_path: Path, name: str) -> None:
    place = object_path(tmp_path, "a" * 32 + ".dir")
    place.parent.mkdir(parents=True)
    good = {"md5": "1" * 32, "relpath": "a/b"}
    place.write_text(json.dumps([good]))
    assert listing(tmp_path, "a" * 32 + ".dir") == {"a/b": "1" * 32}
    place.write_text(json.dumps([good, {"md5": "2" * 32, "relpath": name}]))
    assert listing(tmp_path, "a" * 32 + ".dir") is None and not holds(tmp_path, "a" * 32 + ".dir")


def test_lock_errors(tmp_path: Path) -> None:
    file = tmp_path / "dvc.lock"
    assert read_lock(file) == {}
    file.write_text("")
    assert read_lock(file) == {}
    file.write_text("a: [")
    with pytest.raises(DvcStateError, match="not YAML"):
        read_lock(file)
    file.write_text("schema: '1.0'\nstages: {}")
    with pytest.raises(DvcStateError, match=r"schema 2\.0, got '1\.0'"):
        read_lock(file)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8),
    st.sampled_from(
        ["no", "on", "yes", "1e-4", "1:30", "012", "0o17", "1_000", "2020-01-01", "~", "=", "<<", "null", ".5", "1.", "- a", "a: b", "#x"]
    ),
)


@settings(max_examples=60)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), SCALARS | st.lists(SCALARS, max_size=3), max_size=4))
def test_locks_that_dvc_writes_are_read_back(tmp_path_factory: pytest.TempPathFactory, params: dict[str, Any]) -> None:
    from dvc.utils.serialize import dump_yaml

    file = tmp_path_factory.mktemp("lock") / "dvc.lock"
    dump_yaml(file, {"schema": "2.0", "stages": {"s": {"cmd": "x", "params": {"p.json": params}}}})
    assert read_lock(file)["s"]["params"] == {"p.json": params}


def test_dvc_is_not_imported() -> None:
    code = "import sys, qualm.registry.dvc.state; assert not {'dvc', 'ruamel', 'torch', 'pyarrow'} & {m.split('.')[0] for m in sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
