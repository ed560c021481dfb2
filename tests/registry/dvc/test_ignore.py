from __future__ import annotations

import random
from pathlib import Path

import pytest

from qualm.registry.dvc.ignore import Ignore
from qualm.registry.dvc.state import Checkout

PATTERNS = [
    "*.pyc",
    "__pycache__/",
    "/a",
    "a/",
    "b/*",
    "!b/c",
    "a/**/c",
    "**/c",
    "d/",
    "!d",
    "*",
    "!*.py",
    "/a/b/",
    "\\#x",
    "!a/",
    "[ab]",
    "?",
]
NAMES = ["a", "b", "c", "d", "x.pyc", "y.py", "#x", "__pycache__"]


def fill(folder: Path, depth: int, chance: random.Random) -> None:
    folder.mkdir()
    for name in chance.sample(NAMES, 5):
        if depth < 3 and chance.random() < 0.5:
            fill(folder / name, depth + 1, chance)
        else:
            (folder / name).write_text(str(chance.random()))


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_hash_as_dvc_hashes_them(tmp_path: Path, seed: int) -> None:
    from dvc.repo import Repo
    from dvc_data.hashfile.build import build

    chance = random.Random(seed)
    Repo.init(str(tmp_path), no_scm=True).close()
    fill(tmp_path / "top", 0, chance)
    (tmp_path / ".dvcignore").write_text("\n".join(chance.sample(PATTERNS, chance.randint(0, 5))))
    folders = [p for p in (tmp_path / "top").rglob("*") if p.is_dir()]
    deep = chance.choice(folders) if folders else tmp_path / "top"
    targets = [tmp_path / "top", deep]
    if deep.parent != tmp_path and chance.random() < 0.5:
        (deep.parent / ".dvcignore").write_text("\n".join(chance.sample(PATTERNS, 3)))
        targets = [deep]  # DVC hashes no folder that holds such a file
    with Repo(str(tmp_path)) as repo:
        for target in targets:
            cache = repo.cache.local
            _, _, tree = build(cache, str(target), cache.fs, "md5", ignore=repo.dvcignore, dry_run=True)
            assert Checkout(tmp_path).path_md5(target.relative_to(tmp_path)) == tree.hash_info.value


def test_links_count_as_dvc_counts_them(tmp_path: Path) -> None:
    from dvc.repo import Repo
    from dvc_data.hashfile.build import build

    Repo.init(str(tmp_path), no_scm=True).close()
    (tmp_path / "top").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/f").write_text("f")
    (tmp_path / "top/file").symlink_to("../other/f")
    (tmp_path / "top/folder").symlink_to("../other")
    with Repo(str(tmp_path)) as repo:
        cache = repo.cache.local
        _, _, tree = build(cache, str(tmp_path / "top"), cache.fs, "md5", ignore=repo.dvcignore, dry_run=True)
    assert Checkout(tmp_path).path_md5("top") == tree.hash_info.value
    assert len(Checkout(tmp_path).files("top")) == 1


def test_a_dvc_repository_inside_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "sub/.dvc").mkdir(parents=True)
    assert Ignore(tmp_path).hides(tmp_path.resolve() / "sub", True)
    assert not Ignore(tmp_path).hides(tmp_path.resolve() / "sub", False)
