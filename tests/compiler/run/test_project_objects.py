"""Which objects a commit needs, which ones all commits need, and which ones the run cache restores."""

import json
from pathlib import Path

import pytest
import yaml

from qualm.compiler.run.project_objects import (
    ever_tracked,
    objects_now,
    objects_of_history,
    objects_of_runs,
    tracked_files,
    with_files,
)
from qualm.registry.system.dvc_objects import folder_md5, object_path
from qualm.registry.system.git import GitError
from tests.support.projects.finished_project import commit, git, stored

EMPTY_FOLDER = "d751713988987e9331980363e24189ce.dir"  # DVC's hash of a folder without files


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".gitignore").write_text(".dvc/\n")
    return tmp_path


def lock(root: Path, *outs: dict, place: str = "dvc.lock") -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(yaml.safe_dump({"schema": "2.0", "stages": {"s": {"cmd": "c", "outs": list(outs)}}}))


def out(path: str, md5: str, **more) -> dict:
    return {"path": path, "hash": "md5", "md5": md5, **more}


def test_locks_of_every_pipeline_and_tracked_data_without_what_git_keeps(repo: Path) -> None:
    lock(repo, out("results/a.parquet", "1" * 32), out("results/metrics.json", "2" * 32))
    lock(repo, out("results/b.parquet", "3" * 32), place="specs/b/dvc.lock")
    (repo / "results").mkdir()
    (repo / "results/metrics.json").write_text("{}")
    entries = repo / "registry/data"
    entries.mkdir(parents=True)
    (entries / "mine.dvc").write_text(yaml.safe_dump({"outs": [out("mine", "4" * 32)]}))
    (entries / "kept.dvc").write_text(yaml.safe_dump({"outs": [out("kept", "5" * 32, push=False)]}))
    imported = {"outs": [out("theirs", "7" * 32)], "deps": [{"path": "x", "repo": {"url": "u", "rev_lock": "r"}}]}
    (entries / "theirs.dvc").write_text(yaml.safe_dump(imported))
    commit(repo)
    assert objects_now(repo) == {"1" * 32: "results/a.parquet", "3" * 32: "results/b.parquet", "4" * 32: "registry/data/mine"}


def test_a_folder_brings_its_files_as_far_as_a_store_lists_them(repo: Path) -> None:
    files = {"x.png": stored(repo, b"x"), "sub/y.png": stored(repo, b"y")}
    folder = folder_md5(files)
    place = object_path(repo / ".dvc/cache", folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps([{"md5": md5, "relpath": name} for name, md5 in files.items()]))
    lock(repo, out("data", folder), out("gone", EMPTY_FOLDER))
    commit(repo)
    found = with_files(objects_now(repo), repo / "elsewhere", repo / ".dvc/cache")
    assert found == {folder: "data", files["x.png"]: "data/x.png", files["sub/y.png"]: "data/sub/y.png", EMPTY_FOLDER: "gone"}


def test_history_has_every_side_of_every_merge_and_no_experiments(repo: Path) -> None:
    for md5, branch in (("a", "main"), ("b", "side"), ("c", "main")):
        git(repo, "checkout", "-q", *(["-b"] if branch == "side" else []), branch) if md5 != "a" else None
        lock(repo, out("o", md5 * 32))
        commit(repo)
    git(repo, "merge", "-q", "-s", "ours", "side")
    lock(repo, out("o", "d" * 32))
    commit(repo)
    git(repo, "update-ref", "refs/exps/aa/bb/runic-poem", "HEAD")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    (repo / "dvc.lock").unlink()
    commit(repo)
    assert objects_of_history(repo)[0].keys() == {"a" * 32, "b" * 32, "c" * 32}
    assert objects_now(repo) == {}
    assert tracked_files(repo) == {".gitignore"} and ever_tracked(repo) == {".gitignore", "dvc.lock"}


def test_files_that_were_moved_and_names_that_are_not_ascii(repo: Path) -> None:
    first = {"outs": [out("maß", "1" * 32)], "meta": {"lines": list(range(50))}}
    (repo / "maß.dvc").write_text(yaml.safe_dump(first))
    (repo / "metrics.json").write_text("{}")
    commit(repo)
    for name in ("maß.dvc", "metrics.json"):
        (repo / "sub").mkdir(exist_ok=True)
        git(repo, "mv", name, f"sub/{name}")
    (repo / "sub/maß.dvc").write_text(yaml.safe_dump(first | {"outs": [out("maß", "2" * 32)]}))
    commit(repo)
    (repo / "bäd.dvc").write_text("outs: [")
    commit(repo)
    assert objects_of_history(repo) == ({"1" * 32: "maß", "2" * 32: "sub/maß"}, {"bäd.dvc"})
    assert ever_tracked(repo) >= {"maß.dvc", "metrics.json", "sub/maß.dvc", "sub/metrics.json", "bäd.dvc"}


def test_records_of_runs(repo: Path) -> None:
    for name, text in {
        "one": yaml.safe_dump({"cmd": "c", "outs": [out("o", "e" * 32)]}),
        "bad": "outs: [",
        "empty": "",
        "none": "cmd: c",
    }.items():
        record = repo / ".dvc/cache/runs/ab/key" / name
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(text)
    assert objects_of_runs(repo) == {"e" * 32: "o"}


def test_no_git_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(GitError, match="git ls-files: fatal: not a git repository"):
        objects_now(tmp_path)
