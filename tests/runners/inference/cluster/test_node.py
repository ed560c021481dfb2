"""A worker's files: fetched once per machine, checked, laid out whole. With Ray's `get` replaced, in this process."""

from __future__ import annotations

import hashlib
import io
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from qualm.runners.inference.cluster.node import BUNDLE, Node


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


def test_what_comes_otherwise_than_it_was_sent_is_refused(bundle: bytes) -> None:
    node = Node({"a": digest(b"abc")})
    with pytest.raises(OSError, match="another content than was sent"):
        node.fill({digest(b"abc"): [b"ab", b"d"]})
    assert node.missing() == [digest(b"abc")]
