"""`qualm data add` against real DVC: whole or not at all, and DVC's own commands work on what it made."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.serialize import dump_yaml, load_yaml

from qualm.registry.entries import adding
from qualm.registry.entries.adding import AddError, add, derived_files, git_source
from qualm.registry.entries.card import load_card, read_card
from qualm.registry.entries.entries import entries, find, verify
from qualm.registry.system import atomic
from qualm.registry.system.dvc_files import read_dvc_file
from qualm.registry.system.dvc_objects import hash_path, holds
from qualm.registry.system.locks import ProcessLock

BENCH = load_card("vlm_uncertainty_bench")
MODEL = load_card("scene-vlm-base")
Tree = Callable[[Path], set[str]]
Run = Callable[..., str]


@pytest.mark.slow
def test_added_files_are_dvcs(repo: Path, outputs: Path, dvc: Run, git: Run) -> None:
    told: list[str] = []
    added = add(repo, "vub", str(outputs), BENCH, lambda what, file, size, total: told.append(f"{what} {file}"))
    assert added.outcome == "added" and added.previous is None
    assert added.inspection.splits == {"oodcv": [2844, 2844]} and added.inspection.left_out == ["README.md"]
    assert told[0] == "checking output/A-7b/oodcv.pkl" and told[-2:] == ["copying tables/acc.csv", "tracking vub"]
    raw = read_dvc_file(repo / "registry/data/vub.dvc")
    assert raw["outs"][0]["path"] == "vub" and raw["meta"] == {"qualm": {"card": BENCH.name}} and raw["desc"] == BENCH.title
    written = (repo / "registry/data/vub.dvc").read_bytes()
    dump_yaml(repo / "registry/data/vub.dvc", load_yaml(repo / "registry/data/vub.dvc"))
    assert (repo / "registry/data/vub.dvc").read_bytes() == written, "experiments of DVC would change the file"
    assert hash_path(repo, "registry/data/vub") == raw["outs"][0]["md5"] == added.entry.md5
    assert (repo / "registry/data/.gitignore").read_text() == "/vub\n"
    assert not (repo / "registry/data/vub/README.md").exists() and not (repo / ".qualm/staging").exists()
    assert "up to date" in dvc(repo, "status")
    assert git(repo, "status", "--porcelain", "registry").split() == ["??", "registry/"]
    assert add(repo, "vub", str(outputs), BENCH).outcome == "unchanged"
    assert (outputs / "output/A-7b/oodcv.pkl").stat().st_mode & 0o200  # the source is left as it was


@pytest.mark.slow
def test_push_clone_pull(repo: Path, model: Callable[..., Path], tmp_path: Path, dvc: Run, git: Run) -> None:
    entry = add(repo, "scene-vlm-base", str(model()), MODEL).entry
    dvc(repo, "push", "-q")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "model")
    git(tmp_path, "clone", "-q", str(repo), "clone")
    clone = tmp_path / "clone"
    assert find(clone, "scene-vlm-base").where == "remote"
    dvc(clone, "pull", "-q", "registry/data/scene-vlm-base.dvc")
    cloned = find(clone, "scene-vlm-base")
    assert cloned.where == "here" and cloned.md5 == entry.md5 and verify(cloned).good


def test_a_relative_root_keeps_the_content_too(repo: Path, model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    entry = add(Path(), "m", str(model()), MODEL).entry
    assert holds(repo / ".dvc/cache", str(entry.md5))


@pytest.mark.slow
def test_another_version_replaces(repo: Path, model: Callable[..., Path], dvc: Run) -> None:
    first = add(repo, "m", str(model("a", 1)), MODEL)
    second = add(repo, "m", str(model("b", 2)), MODEL)
    assert second.outcome == "replaced" and second.previous == first.entry.md5 != second.entry.md5
    assert hash_path(repo, "registry/data/m") == second.entry.md5 and "up to date" in dvc(repo, "status")
    assert holds(repo / ".dvc/cache", str(first.entry.md5))
    assert (repo / "registry/data/.gitignore").read_text() == "/m\n"


@pytest.mark.slow
def test_changes_by_hand_are_not_lost(repo: Path, model: Callable[..., Path]) -> None:
    add(repo, "m", str(model("a", 1)), MODEL)
    (repo / "registry/data/m/config.json").write_text("{}")
    with pytest.raises(AddError, match="was changed by hand"):
        add(repo, "m", str(model("b", 2)), MODEL)
    assert (repo / "registry/data/m/config.json").read_text() == "{}"


def test_a_missing_working_copy_comes_back(repo: Path, model: Callable[..., Path]) -> None:
    import shutil

    folder = model()
    entry = add(repo, "m", str(folder), MODEL).entry
    shutil.rmtree(repo / "registry/data/m")
    assert find(repo, "m").where == "cache"
    assert add(repo, "m", str(folder), MODEL).outcome == "unchanged"
    assert hash_path(repo, "registry/data/m") == entry.md5


@pytest.mark.slow
def test_a_fresh_clone_may_add_what_it_could_pull(repo: Path, model: Callable[..., Path], dvc: Run) -> None:
    import shutil

    folder = model()
    entry = add(repo, "m", str(folder), MODEL).entry
    shutil.rmtree(repo / "registry/data/m")
    shutil.rmtree(repo / ".dvc/cache")
    assert add(repo, "m", str(folder), MODEL).outcome == "unchanged"
    assert hash_path(repo, "registry/data/m") == entry.md5 and "up to date" in dvc(repo, "status")


def test_damaged_files_are_all_named_and_nothing_is_added(repo: Path, outputs: Path, tree: Tree) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, (f"touch {outputs}/ran",)

    (outputs / "output/A-7b/oodcv.pkl").write_bytes((outputs / "output/A-7b/oodcv.pkl").read_bytes()[:-200])
    (outputs / "output/B.13b/mmbench.pkl").write_bytes(pickle.dumps(Bomb()))
    (outputs / "output/B.13b/ai2d.pkl").symlink_to("/etc/passwd")
    (outputs / "tables/acc.csv").write_text("<html>404</html>")
    before = tree(repo)
    with pytest.raises(AddError) as caught:
        add(repo, "vub", str(outputs), BENCH)
    assert [p.split(": ")[0] for p in caught.value.problems] == [
        "output/B.13b/ai2d.pkl",
        "output/A-7b/oodcv.pkl",
        "output/B.13b/mmbench.pkl",
        "tables/acc.csv",
    ]
    assert tree(repo) == before and not (outputs / "ran").exists()


@pytest.mark.slow
def test_what_cannot_be_moved_to_its_place_leaves_what_stood_there(
    repo: Path, model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    record, target, publish = repo / "registry/data/m.dvc", repo / "registry/data/m", atomic.publish

    def fail(folder: Path, refused: str) -> None:
        def refuse(finished: Path, place: Path) -> None:
            if place.name == refused:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            publish(finished, place)

        with monkeypatch.context() as disk, pytest.raises(AddError, match="everything is as it was"):
            disk.setattr(atomic, "publish", refuse)
            add(repo, "m", str(folder), MODEL)

    folder, hidden = model(), repo / "registry/data/.gitignore"
    before = hidden.read_bytes() if hidden.exists() else None
    for refused in ("m.dvc", "m"):
        fail(folder, refused)
        assert not record.exists() and not target.exists()
        assert (hidden.read_bytes() if hidden.exists() else None) == before
    entry, written = add(repo, "m", str(folder), MODEL).entry, record.read_bytes()
    fail(model("other", seed=1), "m")
    assert record.read_bytes() == written and hash_path(repo, "registry/data/m") == entry.md5


OWN_CARD = """\
# Written by `qualm data new` of signs on 2026-03-01; every line may be changed.
name: signs
kind: dataset
title: Signs
description: Questions.
adapter: image_table
source: https://example.org
licence: CC0
citation: ""
layout:
  - {files: "test.csv", count: 1}
splits:
  test: {files: "test.csv", records: 1}
"""


@pytest.mark.slow
def test_a_new_version_that_cannot_be_published_leaves_the_card_with_its_counts(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs, card, publish = tmp_path / "signs", repo / "registry/cards/signs.yaml", atomic.publish
    for folder in (signs, card.parent, repo / "specs"):
        folder.mkdir(parents=True)
    (repo / "params.yaml").write_text("default: t\n")
    card.write_text(OWN_CARD)
    monkeypatch.chdir(repo)
    (signs / "test.csv").write_text("image,question\na.png,1?\n")
    add(repo, "signs", str(signs), load_card("signs"))
    with (signs / "test.csv").open("a") as table:
        table.write("b.png,2?\n")
    with zipfile.ZipFile(tmp_path / "signs.zip", "w") as archive:
        archive.write(signs / "test.csv", "test.csv")
        archive.writestr("README.md", "hello")

    def refuse(finished: Path, place: Path) -> None:
        if place.name == "signs":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish(finished, place)

    def add_grown() -> Any:
        return add(repo, "signs", str(tmp_path / "signs.zip"), load_card("signs"), new_version=True)

    with monkeypatch.context() as disk, pytest.raises(AddError, match="everything is as it was"):
        disk.setattr(atomic, "publish", refuse)
        add_grown()
    assert card.read_text() == OWN_CARD and load_card("signs").splits["test"].records == 1
    added = add_grown()
    assert (added.outcome, added.inspection.splits, added.inspection.left_out) == ("replaced", {"test": [2]}, ["README.md"])
    assert card.read_text() == OWN_CARD.replace("records: 1", "records: 2") and load_card("signs").splits["test"].records == 2
    card.write_text(OWN_CARD)
    read_card.cache_clear()
    assert add_grown().outcome == "unchanged" and "records: 2" in card.read_text()


@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", "-x", "x" * 65, "a;b", ".."])
def test_names_are_slugs(repo: Path, outputs: Path, name: str, tree: Tree) -> None:
    before = tree(repo)
    with pytest.raises(AddError, match="is not a valid name for an entry"):
        add(repo, name, str(outputs), BENCH)
    assert tree(repo) == before


def test_sources_that_are_none(repo: Path, outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "x.rar").write_text("rar")
    (tmp_path / "x.zip").write_text("zip")
    (repo / "registry/data/held").mkdir(parents=True)
    for name, source, card, message in (
        ("x", str(tmp_path / "nowhere"), BENCH, "does not exist"),
        ("x", str(tmp_path / "x.rar"), BENCH, "is a file; unpack it"),
        ("x", str(tmp_path / "x.zip"), BENCH, "not a whole archive"),
        ("x", str(repo / "registry/data/held"), BENCH, "lies in the registry already"),
        ("held", str(outputs), BENCH, "exists and DVC does not track it"),
        ("x", str(outputs), load_card("synthetic_scenes"), "is generated"),
        ("x", "https://example.org/o/r.git", BENCH, "which revision"),
    ):
        with pytest.raises(AddError, match=message):
            add(repo, name, source, card)
    with pytest.raises(AddError, match="no DVC repository here"):
        add(tmp_path, "x", str(outputs), BENCH)


@pytest.mark.slow
def test_another_content_of_the_same_size_and_time_replaces(repo: Path, outputs: Path) -> None:
    add(repo, "vub", str(outputs), BENCH)
    assert add(repo, "vub", str(outputs), BENCH).outcome == "unchanged"
    table = outputs / "tables/acc.csv"
    before = table.stat()
    table.write_text(table.read_text().swapcase())
    os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert add(repo, "vub", str(outputs), BENCH).outcome == "replaced"


def test_the_card_and_other_files_count_too(repo: Path, outputs: Path) -> None:
    add(repo, "vub", str(outputs), BENCH)
    stricter = BENCH.model_copy(update={"digests": {"tables/acc.csv": "0" * 64}})
    with pytest.raises(AddError, match=r"tables/acc\.csv: SHA-256"):
        add(repo, "vub", str(outputs), stricter)
    (outputs / "output/A-7b/ai2d.pkl").write_text("<html>")
    with pytest.raises(AddError, match=r"ai2d\.pkl: a web page"):
        add(repo, "vub", str(outputs), BENCH)


def test_skip_bad_leaves_bad_files_out_and_says_so(repo: Path, outputs: Path) -> None:
    (outputs / "output/B.13b/mmbench.pkl").write_text("<html>")
    with pytest.raises(AddError, match="a web page"):
        add(repo, "vub", str(outputs), BENCH)
    added = add(repo, "vub", str(outputs), BENCH, skip_bad=True)
    assert added.outcome == "added" and [line.partition(":")[0] for line in added.inspection.skipped] == ["output/B.13b/mmbench.pkl"]
    assert not (repo / "registry/data/vub/output/B.13b/mmbench.pkl").exists()
    assert find(repo, "vub").skipped and verify(find(repo, "vub")).good
    assert add(repo, "vub", str(outputs), BENCH, skip_bad=True).outcome == "unchanged"
    with pytest.raises(AddError, match="the repository at that revision, whole"):
        add(repo, "vub", "https://example.org/o/r.git@v1", BENCH, skip_bad=True)


@pytest.mark.slow
def test_an_archive(repo: Path, outputs: Path, tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "bench.zip"
    names = sorted(p.relative_to(outputs).as_posix() for p in outputs.rglob("*") if p.is_file())
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.write(outputs / name, f"VLM-Uncertainty-Bench-main/{name}")
    told: list[tuple[str, str, int, int]] = []
    target = add(repo, "vub", str(path), BENCH, progress=lambda *said: told.append(said)).entry.path
    unpacked = [said for said in told if said[0] == "unpacking"]
    assert len(unpacked) >= 2 and {total for *_, total in unpacked} == {0}, "how much an archive unpacks to is not known"
    assert all(size == (outputs / file.partition("/")[2]).stat().st_size for _, file, size, _ in unpacked)
    taken = {p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert taken == {name: (outputs / name).read_bytes() for name in names if name != "README.md"}
    assert add(repo, "vub", str(path), BENCH).outcome == "unchanged"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../evil", "x")
    with pytest.raises(AddError, match=r"bench\.zip: '\.\./\.\./evil': leads out"):
        add(repo, "vub", str(path), BENCH)
    assert add(repo, "vub", str(path), BENCH, skip_bad=True).inspection.skipped[0].startswith("bench.zip: '../../evil'")


def test_what_dvcignore_hides_is_noticed(repo: Path, outputs: Path, tree: Tree) -> None:
    (repo / ".dvcignore").write_text(".qualm/\n*.csv\n")
    before = tree(repo)
    with pytest.raises(AddError, match=r"does \.dvcignore hide"):
        add(repo, "vub", str(outputs), BENCH)
    assert tree(repo) == before


@pytest.mark.slow
def test_import_from_git(repo: Path, outputs: Path, tmp_path: Path, dvc: Run, git: Run) -> None:
    git(outputs, "init", "-q")
    git(outputs, "add", "-A")
    git(outputs, "commit", "-qm", "one")
    git(outputs, "tag", "v1")
    added = add(repo, "vub", f"file://{outputs}@v1", BENCH)
    raw = read_dvc_file(repo / "registry/data/vub.dvc")
    commit = git(outputs, "rev-parse", "HEAD").strip()
    assert raw["deps"][0]["repo"] == {"url": f"file://{outputs}", "rev": "v1", "rev_lock": commit} and raw["frozen"] is True
    assert added.entry.origin == f"file://{outputs}@v1" and added.inspection.splits == {"oodcv": [2844, 2844]}
    assert "up to date" in dvc(repo, "status")
    assert verify(added.entry).extra == () and verify(added.entry).good
    assert add(repo, "vub", f"file://{outputs}@v1", BENCH).outcome == "unchanged"
    (outputs / "output/A-7b/oodcv.pkl").write_bytes((outputs / "output/A-7b/oodcv.pkl").read_bytes()[:-200])
    git(outputs, "commit", "-qam", "two")
    with pytest.raises(AddError, match="truncated or corrupt"):
        add(repo, "vub", f"file://{outputs}@{git(outputs, 'rev-parse', 'HEAD').strip()}", BENCH)
    assert find(repo, "vub").md5 == added.entry.md5
    with pytest.raises(AddError, match="dvc import"):
        add(repo, "vub", f"file://{outputs}@nowhere", BENCH)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("https://github.com/o/r@v1.0", ("https://github.com/o/r", "v1.0")),
        ("git+https://u:p@host/o/r.git@feature/x", ("https://u:p@host/o/r.git", "feature/x")),
        ("git@github.com:o/r.git@abc123", ("git@github.com:o/r.git", "abc123")),
        ("git@github.com:o/r.git", ("git@github.com:o/r.git", None)),
        ("file:///tmp/r@v1", ("file:///tmp/r", "v1")),
        ("./folder@v1", None),
        ("/a/b", None),
        ("ext::sh -c touch% x@v1", None),
        ("--upload-pack=x", None),
        ("https://h/r@-x", None),
    ],
)
def test_what_is_a_git_source(source: str, found: tuple[str, str | None] | None) -> None:
    assert git_source(source) == found


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.15, 0.4, 0.7, 1.0])
def test_killed_at_any_moment(repo: Path, model: Callable[..., Path], after: float, dvc: Run) -> None:
    """kill -9 leaves the old version or the new one; the next add goes through and cleans up."""
    old = add(repo, "m", str(model("a", 1)), MODEL).entry.md5
    new = model("b", 2)
    code = (
        "import sys; from pathlib import Path; from qualm.registry.entries.adding import add;"
        "from qualm.registry.entries.card import load_card;"
        "add(Path(sys.argv[1]), 'm', sys.argv[2], load_card('scene-vlm-base'))"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(repo), str(new)], start_new_session=True)
    time.sleep(after)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    recorded = find(repo, "m").md5
    assert recorded is not None and holds(repo / ".dvc/cache", recorded)
    dvc(repo, "checkout", "-q")
    assert hash_path(repo, "registry/data/m") == recorded
    last = add(repo, "m", str(new), MODEL)
    assert last.entry.md5 != old and not (repo / ".qualm/staging").exists()
    assert "up to date" in dvc(repo, "status")


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_stopped_between_two_renames(
    repo: Path, model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, step: int, failure: type[BaseException], dvc: Run
) -> None:
    old = add(repo, "m", str(model("a", 1)), MODEL).entry.md5
    new, real, calls = model("b", 2), Path.replace, [0]

    def replace(self: Path, target: Path) -> Path:
        if self.name in ("m.dvc", "m"):
            calls[0] += 1
            if calls[0] == step:
                raise failure
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt if failure is KeyboardInterrupt else AddError):
        add(repo, "m", str(new), MODEL)
    monkeypatch.undo()
    recorded = find(repo, "m").md5
    assert recorded is not None and holds(repo / ".dvc/cache", recorded)
    if failure is OSError:
        assert recorded == old == hash_path(repo, "registry/data/m")
    after = add(repo, "m", str(new), MODEL)
    assert after.entry.md5 != old and hash_path(repo, "registry/data/m") == after.entry.md5
    assert "up to date" in dvc(repo, "status")


def test_one_at_a_time(repo: Path, outputs: Path) -> None:
    lock = ProcessLock(repo / ".qualm/locks/data.lock")
    assert lock.acquire()
    with pytest.raises(AddError, match="another `qualm data add` is at work"):
        add(repo, "vub", str(outputs), BENCH)
    lock.release()
    assert [e.name for e in entries(repo) if e.md5] == []


def test_adding_runs_no_adapter_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_card("vizwiz_ans_difference")
    assert derived_files(card) is not None
    of_project = replace(adding.get("datasets", card.adapter or ""), module="qualm.project.adapters.mine")
    monkeypatch.setattr(adding, "get", lambda kind, name: of_project)
    assert derived_files(card) is None and of_project.module not in sys.modules
