"""What git says of a checkout, and what is said where it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qualm.registry.system import git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for arguments in (
        ["init", "-q"],
        ["config", "user.email", "a@b"],
        ["config", "user.name", "a"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commit_and_whether_tracked_files_differ(checkout: Path) -> None:
    commit, dirty = git.head_commit(checkout)
    assert len(commit) == 40
    assert not dirty
    (checkout / "file").write_text("x")
    assert git.head_commit(checkout) == (commit, False)
    git.git(checkout, "add", "file")
    assert git.head_commit(checkout) == (commit, True)


def test_where_git_refuses(tmp_path: Path) -> None:
    with pytest.raises(git.GitError, match=r"git log: fatal: .*not a git repository"):
        git.git(tmp_path, "log")
    assert git.output(tmp_path, "log") is None
    assert git.head_commit(tmp_path) == ("", False)
    assert git.refusal(tmp_path).startswith("git rev-parse: fatal: not a git repository")


def test_a_repository_of_another_account(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git.refusal(checkout) == ""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert f"dubious ownership in repository at '{checkout}' To add an exception" in git.refusal(checkout)


def test_where_git_is_not_there_or_does_not_answer(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(git.GitError, match="git rev-parse: no answer within 1e-09 s"):
        git.git(checkout, "rev-parse", "HEAD", seconds=1e-9)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(git.GitError, match="`git` is not installed"):
        git.git(checkout, "log")
    assert git.head_commit(checkout) == ("", False)


def test_contents_of_objects_and_one_that_is_missing(checkout: Path) -> None:
    (checkout / "file").write_bytes(b"a\r\n\0b missing")
    blob = git.git(checkout, "hash-object", "-w", "file").strip()
    assert list(git.file_contents(checkout, [blob, blob])) == [(blob, b"a\r\n\0b missing")] * 2
    with pytest.raises(git.GitError, match=f"git cat-file: {'1' * 40} missing in this repository; `git fetch --refetch` brings it"):
        list(git.file_contents(checkout, [blob, "1" * 40]))
    (checkout / ".git/HEAD").unlink()
    with pytest.raises(git.GitError, match="git cat-file: fatal: "):
        list(git.file_contents(checkout, [blob]))


def test_programs_that_a_repository_names_are_not_run(checkout: Path) -> None:
    program = checkout / "program"
    program.write_text(f"#!/bin/sh\ntouch {checkout / 'has-run'}\n")
    program.chmod(0o755)
    (checkout / ".git/hooks").mkdir(exist_ok=True)
    (checkout / ".git/hooks/post-index-change").symlink_to(program)
    subprocess.run(["git", "config", "core.fsmonitor", str(program)], cwd=checkout, check=True)
    git.head_commit(checkout)
    git.git(checkout, "add", "program")
    assert not (checkout / "has-run").exists()
