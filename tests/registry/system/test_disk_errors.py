"""What is said of a disk that is full, or of a place that belongs to somebody else."""

from __future__ import annotations

import errno
import os

import pytest

from qualm.registry.system.disk_errors import DISK_FULL, REFUSED, explain_error, is_disk_error


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "a/b: the disk is full; make room (`df -h` shows where), then run this again"),
        (errno.EROFS, "a/b: the file system is read-only; name a place that can be written, or work in a copy or clone of the project"),
        (errno.EACCES, "a/b: permission denied; have its owner allow it, or work in a copy or clone of the project that is yours"),
        (errno.ENOTDIR, "a/b: Not a directory"),
    ],
)
def test_place_fault_and_remedy(number: int, words: str) -> None:
    assert explain_error(OSError(number, os.strerror(number), "a/b")) == words


def test_an_error_that_names_no_file() -> None:
    assert explain_error(OSError(errno.ENOSPC, "No space left on device"), "out") == explain_error(OSError(errno.ENOSPC, "", "out"))
    assert (
        explain_error(OSError(errno.EDQUOT, "Disk quota exceeded"))
        == "the quota of this account is used up; make room, then run this again"
    )
    assert explain_error(OSError("something of a library's")) == "something of a library's" and explain_error(OSError()) == "OSError"


def test_what_is_of_the_disk_and_what_may_be_a_mistake_of_ours() -> None:
    assert all(is_disk_error(OSError(number, "")) for number in DISK_FULL | REFUSED)
    assert not is_disk_error(FileNotFoundError(errno.ENOENT, "")) and not is_disk_error(OSError("of a library"))
