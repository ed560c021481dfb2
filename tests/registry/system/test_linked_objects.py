"""Links into DVC's cache are followed, and no others; `cache.type symlink` is as good as any."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.registry.entries.adding import add
from qualm.registry.entries.card import load_card
from qualm.registry.entries.entries import find, verify
from qualm.registry.entries.layout import inspect
from qualm.registry.system.dvc_files import cache_folder
from qualm.registry.system.dvc_objects import lies_in, link


@pytest.fixture
def linked(repo: Path, model: Callable[..., Path]) -> Path:
    """An entry whose files are links into the cache."""
    with (repo / ".dvc/config").open("a") as config:
        config.write("[cache]\n    type = symlink\n")
    add(repo, "scene-vlm-base", str(model()), load_card("scene-vlm-base"))
    found = repo / "registry/data/scene-vlm-base"
    assert all(path.is_symlink() for path in found.iterdir())
    return found


def test_an_entry_of_links_is_read_and_verified(repo: Path, linked: Path, model: Callable[..., Path]) -> None:
    assert lies_in(linked, linked / "config.json")
    assert verify(find(repo, "scene-vlm-base")).good
    assert add(repo, "scene-vlm-base", str(model("again")), load_card("scene-vlm-base")).outcome == "unchanged"
    (linked / "config.json").unlink()
    (linked / "config.json").symlink_to("/etc/passwd")
    verdict = verify(find(repo, "scene-vlm-base"))
    assert verdict.damaged == ("config.json",) and verdict.problems[0] == (
        "config.json: a link to /etc/passwd; links are not taken, copy the source with `cp -rL` first"
    )


def test_as_a_source_links_are_not_taken_wherever_they_lead(linked: Path) -> None:
    assert all("a link to" in problem for problem in inspect(linked, load_card("scene-vlm-base")).problems)


def test_what_leads_out_is_not_followed(repo: Path, linked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("x")
    (linked / "secret").symlink_to(tmp_path / "secret")
    target = os.path.relpath((linked / "config.json").resolve(), linked)
    for name in ("secret", "../../../../secret", str(tmp_path / "secret"), target, str((linked / "config.json").resolve())):
        assert (linked / name).is_file() and not lies_in(linked, linked / name), name
    monkeypatch.chdir(repo)
    assert lies_in(Path("registry/data/scene-vlm-base"), Path("registry/data/scene-vlm-base/./config.json"))
    assert not lies_in(Path("registry/data/scene-vlm-base"), Path("registry/data/scene-vlm-base/../../../.dvc/config"))
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "link").symlink_to((linked / "config.json").resolve())
    assert not lies_in(plain, plain / "link")  # of no project: nothing but what lies in it


@pytest.mark.slow
@pytest.mark.parametrize("refused", [("symlink_to",), ("symlink_to", "hardlink_to")])
def test_without_the_right_to_make_links_files_are_there_all_the_same(
    repo: Path, model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    """An account of Windows may not make symbolic links, and hard links do not lead to another disk."""

    def refuse(path: Path, target: Path) -> None:
        raise OSError(1314, "A required privilege is not held by the client")

    md5 = add(repo, "scene-vlm-base", str(model()), load_card("scene-vlm-base")).entry.md5
    assert md5 is not None
    for name in refused:
        monkeypatch.setattr(Path, name, refuse)
    link(cache_folder(repo), md5, tmp_path / "shown")
    shown = sorted(path.name for path in (tmp_path / "shown").iterdir())
    assert shown and shown == sorted(path.name for path in (repo / "registry/data/scene-vlm-base").iterdir())
    for name in shown:
        assert (tmp_path / "shown" / name).read_bytes() == (repo / "registry/data/scene-vlm-base" / name).read_bytes()
        assert lies_in(tmp_path / "shown", tmp_path / "shown" / name)
