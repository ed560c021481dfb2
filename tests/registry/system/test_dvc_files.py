"""DVC's settings, `.dvc` files and locks: read as DVC reads them, and refused with one message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualm.registry.system.dvc_files import (
    DvcStateError,
    cache_folder,
    find_dvc_file,
    local_remote,
    parse_dvc_file,
    parse_lock,
    read_config,
    read_dvc_file,
    read_lock,
)

ROOT = Path(__file__).parents[3]
MD5 = "0123456789abcdef0123456789abcdef"
OUT = f"outs: [{{path: x, md5: {MD5}.dir, size: 0, nfiles: 0, hash: md5}}]"


def test_settings_are_those_of_all_files_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "user"))
    (tmp_path / "repo/.dvc").mkdir(parents=True)
    root = (tmp_path / "repo").resolve()
    assert cache_folder(root) == root / ".dvc/cache" and local_remote(root) is None
    (root / ".dvc/config").write_text("[core]\n    remote = store\n['remote \"store\"']\n    url = ../s\n[cache]\n    dir = ../shared\n")
    assert cache_folder(root) == root / "shared"
    (root / ".dvc/config.local").write_text("[cache]\n    dir = /elsewhere/cache\n['remote \"mine\"']\n    url = ../m\n")
    assert cache_folder(root) == Path("/elsewhere/cache")
    assert local_remote(root) == root / "s"
    assert read_config(root)["remote"].keys() == {"store", "mine"} and read_config(root, shared=True)["remote"].keys() == {"store"}
    (root / ".dvc/config").write_text("[core]\n    remote = store\n['remote \"store\"']\n    url = s3://bucket/x\n")
    assert local_remote(root) is None


@pytest.mark.parametrize("text", ["[core\n", "[core]\nremote: x\n", "cache = 3\n", "[cache]\ndir = a, b\n", "['remote \"a\"']\nx = 1\n"])
def test_settings_that_dvc_rejects_are_one_message(tmp_path: Path, text: str) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text(text)
    with pytest.raises(DvcStateError, match=r"\.dvc/config: not a DVC configuration: .+; correct it, or restore it from git"):
        cache_folder(tmp_path)


def test_our_own_remote_is_in_the_repository_and_small() -> None:
    store = local_remote(ROOT)
    assert store == ROOT / "registry/store"
    assert sum(f.stat().st_size for f in store.rglob("*") if f.is_file()) < 20 * 2**20


def test_a_dvc_file_is_read_as_it_stands() -> None:
    found = parse_dvc_file(f"{OUT}\ndeps: [{{repo: {{url: u}}}}]\nmore: 1", "x.dvc")
    out = {"path": "x", "md5": f"{MD5}.dir", "size": 0, "nfiles": 0, "hash": "md5"}
    assert found == {"outs": [out], "deps": [{"repo": {"url": "u"}}], "more": 1}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "x.dvc: not a DVC file with an output: Input should be a valid dictionary; restore it with `git checkout x.dvc`"),
        ("", "x.dvc: not a DVC file with an output: Input should be a valid dictionary, got None"),
        ("{}", "outs: Field required"),
        ("outs: []", "outs: List should have at least 1 item"),
        ("outs: 3", "outs: Input should be a valid list, got 3"),
        ("outs: [{path: [a]}]", "outs.0.path: Input should be a valid string"),
        ("outs: [{path: x, md5: 12345}]", "outs.0.md5: Input should be a valid string, got 12345"),
        (f"outs: [{{path: x, md5: {MD5[:-1]}}}]", "outs.0.md5: String should match pattern"),
        (f"outs: [{{path: x, md5: {MD5.upper()}}}]", "outs.0.md5: String should match pattern"),
        ("outs: [{path: x, size: -1}]", "outs.0.size: Input should be greater than or equal to 0, got -1"),
        ("outs: [{path: x, nfiles: 1.5}]", "outs.0.nfiles: Input should be a valid integer, got 1.5"),
        ("outs: [{path: x}]\ndeps: [x]", "deps.0: Input should be a valid dictionary, got 'x'"),
        ("outs: [{path: x}]\nmeta: {qualm: {card: 7}}", "meta.qualm.card.str: Input should be a valid string, got 7"),
        ("outs: [", "x.dvc: not YAML"),
    ],
)
def test_what_is_no_dvc_file(text: str, message: str) -> None:
    with pytest.raises(DvcStateError) as error:
        parse_dvc_file(text, "x.dvc")
    assert message in str(error.value)


def test_a_path_is_tracked_by_its_own_dvc_file_or_that_of_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b.dvc").write_text(OUT)
    assert find_dvc_file(tmp_path, "a/b") == find_dvc_file(tmp_path, "a/b/c/d") == ("a/b.dvc", f"{MD5}.dir")
    assert find_dvc_file(tmp_path, "a") is None and find_dvc_file(tmp_path, "a/c") is None
    (tmp_path / "a/b.dvc").write_text("outs: [{path: x}]")
    assert find_dvc_file(tmp_path, "a/b") == ("a/b.dvc", None)


def test_a_lock_is_read_without_what_is_empty(tmp_path: Path) -> None:
    text = f"schema: '2.0'\nstages: {{a: {{cmd: x, deps: null, outs: [{{path: o, md5: {MD5}}}], params: {{f: null}}}}}}"
    assert parse_lock(text, "dvc.lock") == {"a": {"cmd": "x", "outs": [{"path": "o", "md5": MD5}], "params": {"f": None}}}
    assert parse_lock(None, "dvc.lock") == parse_lock("", "dvc.lock") == parse_lock("schema: '2.0'\nstages:\n", "dvc.lock") == {}
    assert read_lock(tmp_path / "dvc.lock") == {}


@pytest.mark.parametrize(
    "text, message",
    [
        ("text", "dvc.lock: not a DVC lock: Input should be a valid dictionary, got 'text'; restore it with `git checkout dvc.lock`, or"),
        ("schema: '1.0'\nstages: {}", "dvc.lock: not a DVC lock: schema: Input should be '2.0', got '1.0'"),
        ("schema: '2.0'\nstages: {a: {cmd: 7}}", "stages.a.cmd"),
        ("schema: '2.0'\nstages: {a: {outs: [{}]}}", "stages.a.outs.0.path: Field required"),
        ("schema: '2.0'\nstages: {a: []}", "stages.a: Input should be a valid dictionary"),
        ("<<<<<<< HEAD\nschema: '2.0'\n", "dvc.lock: not YAML"),
    ],
)
def test_what_is_no_lock(text: str, message: str) -> None:
    with pytest.raises(DvcStateError) as error:
        parse_lock(text, "dvc.lock")
    assert message in str(error.value)


def test_a_file_of_a_commit_is_not_restored_by_its_path() -> None:
    for parse, where in ((parse_lock, "dvc.lock at 1a2b3c4d5e"), (parse_dvc_file, "registry/data/m.dvc at 1a2b3c4d5e")):
        with pytest.raises(DvcStateError, match=f"^{where}: .*; compare with another revision$"):
            parse("text", where)


def test_what_is_no_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(DvcStateError, match=r"cannot be read: expected a file, got a folder; restore it"):
        read_dvc_file(tmp_path)


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


def test_dvc_is_imported_only_where_it_is_needed() -> None:
    code = (
        "import sys, qualm.registry.system.dvc_objects\n"
        "assert not {'dvc', 'ruamel', 'torch', 'pyarrow'} & {m.split('.')[0] for m in sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
