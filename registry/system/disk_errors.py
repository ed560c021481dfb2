"""Messages for errors of the operating system on files, with their remedies."""

import errno

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No room for what is being written."""
REFUSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""The place belongs to somebody else, or cannot be written by anybody."""
_ADVICE = {
    errno.ENOSPC: "the disk is full; make room (`df -h` shows where), then run this again",
    errno.EDQUOT: "the quota of this account is used up; make room, then run this again",
    errno.EFBIG: "larger than a file may be here (`ulimit -f`, or the file system's limit)",
    errno.EROFS: "the file system is read-only; name a place that can be written, or work in a copy or clone of the project",
    errno.EACCES: "permission denied; have its owner allow it, or work in a copy or clone of the project that is yours",
    errno.EPERM: "not permitted; have its owner allow it, or work in a copy or clone of the project that is yours",
    errno.EMFILE: "too many open files; `ulimit -n 4096` allows more",
}


def explain_error(error: OSError, where: str = "") -> str:
    """Return an OSError as "FILE: what is wrong; what to do"; `where` if it names no file.

    >>> explain_error(OSError(errno.ENOSPC, "No space left on device", "results/scores.parquet"))
    'results/scores.parquet: the disk is full; make room (`df -h` shows where), then run this again'
    """
    words = _ADVICE.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
    place = error.filename or where
    return f"{place}: {words}" if place else words


def is_disk_error(error: OSError) -> bool:
    """Return whether an OSError is a full disk, read-only place or missing permission."""
    return error.errno in DISK_FULL | REFUSED
