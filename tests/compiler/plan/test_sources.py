"""Closures by remembered imports are those of the sources as they are: content is what entries are found by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualm.compiler.plan import sources
from qualm.compiler.plan.sources import Sources
from qualm.registry.plugins import imports
from qualm.registry.plugins.registry import ROOT

A, B, C = (f"qualm.runners.{name}" for name in "abc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "runners").mkdir()
    for name, text in {"a": "from . import b\n", "b": "", "c": ""}.items():
        (tmp_path / f"runners/{name}.py").write_text(text)
    return tmp_path


def named(root: Path, file: Path | None) -> set[str]:
    one = Sources(file)
    closure = set(one.closure([A], root))
    one.save()
    return closure


def test_a_second_command_parses_nothing_and_finds_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / ".qualm/imports.json"
    assert named(root, file) == {A, B} and file.is_file()
    before = file.read_bytes()
    monkeypatch.setattr(imports, "facts", None)
    monkeypatch.setattr(sources, "_PARSED", {})
    assert named(root, file) == {A, B} and file.read_bytes() == before


def test_an_edit_counts_whatever_the_clock_says(root: Path) -> None:
    import os

    file, source = root / ".qualm/imports.json", root / "runners/a.py"
    named(root, file)
    state = source.stat()
    source.write_text("from . import c\n")
    os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert named(root, file) == {A, C}
    source.write_text("from . import b\n")
    assert named(root, file) == {A, B}


def test_equal_files_of_two_packages_import_what_is_theirs(root: Path) -> None:
    (root / "runners/deep").mkdir()
    for name, text in {"a": "from . import b\n", "b": "x = 1\n"}.items():
        (root / f"runners/deep/{name}.py").write_text(text)
    one = Sources()
    assert set(one.closure([A], root)) == {A, B}
    assert set(one.closure(["qualm.runners.deep.a"], root)) == {"qualm.runners.deep.a", "qualm.runners.deep.b"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"by": "another", "files": {"x": [["y"], []]}}', '{"by": null}', "\x00"])
def test_what_another_wrote_or_nobody_is_made_anew(root: Path, text: str) -> None:
    file = root / ".qualm/imports.json"
    file.parent.mkdir()
    file.write_text(text)
    assert named(root, file) == {A, B}
    assert json.loads(file.read_text())["by"] == sources._parser()


def test_entries_of_another_parser_do_not_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / ".qualm/imports.json"
    named(root, file)
    content = json.loads(file.read_text())
    content["files"] = {key: [["qualm.runners.c"], []] for key in content["files"]}
    file.write_text(json.dumps(content))
    assert named(root, file) == {A, C}, "entries are used"
    monkeypatch.setattr(sources, "_parser", lambda: "a later Python")
    assert named(root, file) == {A, B}


def test_where_nothing_can_be_written_nothing_is_lost(root: Path) -> None:
    (root / "blocked").write_text("a file in the place of the folder")
    assert named(root, root / "blocked/imports.json") == {A, B}


def test_the_store_of_entries_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = root / ".qualm/imports.json"
    named(root, file)
    monkeypatch.setattr(sources, "MAX_KEPT_ENTRIES", 1)
    (root / "runners/a.py").write_text("from . import c\n")
    named(root, file)
    assert len(json.loads(file.read_text())["files"]) == 2


def test_our_own_closures_are_those_of_the_one_rule() -> None:
    modules = ["qualm.runners.stages.score", "qualm.runners.stages.infer", "qualm.runners.plugins.models.hf_vlm"]
    one = Sources()
    for module in modules:
        assert one.closure([module], ROOT) == imports.closure([module], imports.roots_of(module, ROOT))


@pytest.mark.parametrize(("many", "kept"), [(3, 3), (2, 1)])
def test_beyond_so_many_entries_only_those_in_use_are_kept(root: Path, monkeypatch: pytest.MonkeyPatch, many: int, kept: int) -> None:
    """Two entries from before; a third is new."""
    file = root / ".qualm/imports.json"
    named(root, file)
    monkeypatch.setattr(sources, "MAX_KEPT_ENTRIES", many)
    one = Sources(file)
    one.closure([C], root)
    one.save()
    assert len(json.loads(file.read_text())["files"]) == kept
