"""Links into DVC's cache are followed, and no others; `cache.type symlink` is as good as any."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qualm.registry.dvc.links import lies_in
from qualm.registry.entries.adding import add
from qualm.registry.entries.card import load_card
from qualm.registry.entries.entries import find, verify
from qualm.registry.entries.layout import inspect


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
