"""Ask git about a checkout."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

TIMEOUT = 20.0
"""Seconds that git may take for a question that a run can do without."""
READ_ONLY = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
"""Options that keep git from running programs that a repository's own configuration names, and from writing its index."""


class GitError(Exception):
    """Error that git is not installed or a git command failed."""


def git(root: Path, *arguments: str, seconds: float | None = None) -> str:
    """Return the standard output of a git command in `root`; GitError if it fails."""
    try:
        done = subprocess.run(
            ["git", *READ_ONLY, *arguments], cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=seconds
        )
    except FileNotFoundError:
        raise GitError("`git` is not installed; install it and try again") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]}: no answer within {seconds:g} s; try again") from None
    if done.returncode != 0:
        raise GitError(f"git {arguments[0]}: {done.stderr.strip() or 'failed'}")
    return done.stdout


def file_contents(root: Path, blobs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (blob name, content) of git objects, in order; GitError if one is missing."""
    done = subprocess.run(
        ["git", *READ_ONLY, "cat-file", "--batch"], cwd=root, input="\n".join(blobs).encode(), capture_output=True, check=False
    )
    if done.returncode != 0:
        raise GitError(f"git cat-file: {done.stderr.decode(errors='replace').strip() or 'failed'}")
    at = 0
    for blob in blobs:
        end = done.stdout.index(b"\n", at)
        answer = done.stdout[at:end].decode()
        if answer.endswith(" missing"):
            raise GitError(f"git cat-file: {answer} in this repository; `git fetch --refetch` brings it")
        size = int(answer.split()[-1])
        yield blob, done.stdout[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def output(root: Path, *arguments: str) -> str | None:
    """Return the standard output of a git command in `root`; None if it fails."""
    try:
        return git(root, *arguments)
    except GitError:
        return None


def refusal(root: Path) -> str:
    """Return why git cannot read a folder's repository; "" if it can."""
    try:
        git(root, "rev-parse", "--git-dir", seconds=TIMEOUT)
    except GitError as error:
        return " ".join(str(error).split())
    return ""


def head_commit(root: Path) -> tuple[str, bool]:
    """Return (commit hash, True if tracked files differ); ("", False) if git fails."""
    try:
        commit = git(root, "rev-parse", "HEAD", seconds=TIMEOUT).strip()
        return commit, bool(git(root, "status", "--porcelain", "--untracked-files=no", seconds=TIMEOUT).strip())
    except GitError:
        return "", False
