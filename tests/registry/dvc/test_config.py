from __future__ import annotations

from pathlib import Path

import pytest

from qualm.registry.dvc.config import DvcStateError, cache_folder, local_remote

ROOT = Path(__file__).parents[3]


def test_cache_folder_follows_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "user"))
    (tmp_path / "repo/.dvc").mkdir(parents=True)
    root = (tmp_path / "repo").resolve()
    assert cache_folder(root) == root / ".dvc/cache"
    (root / ".dvc/config").write_text("[core]\n    remote = store\n['remote \"store\"']\n    url = ../s\n[cache]\n    dir = ../shared\n")
    assert cache_folder(root) == root / "shared"
    (root / ".dvc/config.local").write_text("[cache]\n    dir = /elsewhere/cache\n")
    assert cache_folder(root) == Path("/elsewhere/cache")
    assert local_remote(root) == root / "s"
    (root / ".dvc/config").write_text("[core]\n    remote = store\n['remote \"store\"']\n    url = s3://bucket/x\n")
    assert local_remote(root) is None
    (root / ".dvc/config").write_text("[core\n")
    with pytest.raises(DvcStateError, match="not a DVC configuration"):
        cache_folder(root)


def test_our_own_remote_is_in_the_repository_and_small() -> None:
    store = local_remote(ROOT)
    assert store == ROOT / "registry/store"
    assert sum(f.stat().st_size for f in store.rglob("*") if f.is_file()) < 20 * 2**20
