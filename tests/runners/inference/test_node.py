"""A worker's files: fetched once per machine, checked, laid out whole. With Ray's `get` replaced, in this process."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualm.runners.inference import node as node_module
from qualm.runners.inference.node import BUNDLE, Node


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda piece: piece))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr("code/own.py", "x = 1\n")
    return whole.getvalue()


def test_files_are_fetched_once_and_laid_out(bundle: bytes, tmp_path: Path) -> None:
    files = {BUNDLE: digest(bundle), "data/a": digest(b"abc"), "data/b": digest(b"abc")}
    first = Node(files)
    assert first.missing() == sorted({digest(bundle), digest(b"abc")})
    first.fill({digest(bundle): [bundle], digest(b"abc"): [b"a", b"bc"]})
    tree = first._tree()
    assert (tree / "data/a").read_bytes() == (tree / "data/b").read_bytes() == b"abc" and (tree / "code/own.py").read_text() == "x = 1\n"
    assert stat.S_IMODE(first.home.stat().st_mode) == 0o700 and stat.S_IMODE((tree / "data/a").stat().st_mode) == 0o444
    second = Node(files)
    assert second.missing() == [] and second._tree() == tree
    other = Node({**files, "data/c": digest(b"c")})
    assert other.missing() == [digest(b"c")]


def test_files_that_cannot_be_put_in_place_are_an_error(bundle: bytes) -> None:
    node = Node({BUNDLE: digest(bundle)})
    node.fill({digest(bundle): [bundle]})
    tree = node._tree()
    shutil.rmtree(tree)
    tree.symlink_to("nowhere")
    with pytest.raises(OSError, match=tree.name):
        node._tree()
    assert list(tree.parent.iterdir()) == [tree]


def test_what_nobody_used_for_a_week_is_removed(bundle: bytes) -> None:
    def laid_out(**data: bytes) -> tuple[Node, Path]:
        node = Node({BUNDLE: digest(bundle), **{name: digest(content) for name, content in data.items()}})
        node.missing()
        node.fill({digest(content): [content] for content in (bundle, *data.values())})
        return node, node._tree()

    def age(path: Path, days: float) -> None:
        os.utime(path, (time.time() - days * 86_400,) * 2)

    node, old = laid_out(a=b"both", b=b"old alone")
    _, gone = laid_out(d=b"used without its tree")
    _, new = laid_out(a=b"both", c=b"new alone")
    objects = {
        content: node._object(digest(content)) for content in (bundle, b"both", b"old alone", b"new alone", b"used without its tree")
    }
    for path in (old, gone, *objects.values()):
        age(path, 7.1)
    for path in (new, objects[b"used without its tree"]):
        age(path, 6.9)
    assert Node({"c": digest(b"new alone")}).missing() == []
    assert not old.exists() and not gone.exists() and (new / "a").read_bytes() == b"both"
    assert {content for content, path in objects.items() if path.exists()} == {bundle, b"both", b"new alone", b"used without its tree"}
    assert (new / "c").read_bytes() == b"new alone" and Node({"b": digest(b"old alone")}).missing() == [digest(b"old alone")]


def test_what_comes_otherwise_than_it_was_sent_is_refused(bundle: bytes) -> None:
    node = Node({"a": digest(b"abc")})
    with pytest.raises(OSError, match=r"expected a file of SHA-256 .*, received .*; run again"):
        node.fill({digest(b"abc"): [b"ab", b"d"]})
    assert node.missing() == [digest(b"abc")]


OPENED = """
import importlib.util, pickle, sys, tempfile, types
source, tempfile.tempdir, bundle = sys.argv[1], sys.argv[2], sys.argv[3]
for name in ("qualm", "qualm.runners", "qualmish"):  # of this machine's own installation, and another package
    sys.modules[name] = types.ModuleType(name)
spec = importlib.util.spec_from_file_location("node", source)
node = importlib.util.module_from_spec(spec)
spec.loader.exec_module(node)
there = sys.modules["qualmish"]
worker = node.Node({})
worker._tree = lambda: node.Path(bundle)
opened = worker.open("opener", pickle.dumps(("a stage",)))
print(opened["asked"], opened["code"] == bundle + "/code", sys.modules.get("qualmish") is there, worker.answer(pickle.dumps((3,))))
"""


def test_a_stage_is_opened_by_the_code_that_was_sent_whatever_is_installed_or_imported(tmp_path: Path) -> None:
    folder = tmp_path / "tree/code/qualm/runners/inference"
    folder.mkdir(parents=True)
    (folder / "shards.py").write_text(
        "class Shards:\n"
        "    def __init__(self, opener, stage):\n"
        "        self.identity = {'asked': f'{opener}-{stage}'}\n"
        "    def answer(self, shard):\n"
        "        return shard * 2\n"
    )
    arguments = [node_module.__file__, str(tmp_path), str(tmp_path / "tree")]
    found = subprocess.run([sys.executable, "-c", OPENED, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (found.stdout, found.stderr) == ("opener-a stage True True 6\n", "")
