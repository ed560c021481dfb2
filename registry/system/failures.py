"""Report of an unexpected error: one line for the terminal, the traceback and the versions in a log file."""

import os
import re
import tempfile
import time
import traceback
from pathlib import Path

from qualm.registry.system import atomic
from qualm.registry.system.versions import describe_versions

TRACEBACK = "QUALM_TRACEBACK"
"""Environment variable: if set, the traceback of an unexpected error is printed too."""
MAX_CHARACTERS = 300


def summarize_error(error: BaseException) -> str:
    """Return "CLASS: message" of an error on one line, cut to MAX_CHARACTERS."""
    message = " ".join(str(error).split())
    if len(message) > MAX_CHARACTERS:
        message = f"{message[:MAX_CHARACTERS]}..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def log_error(error: BaseException, name: str, root: Path | None) -> str:
    """Write traceback and versions to a log file; return a sentence on where it is.

    Args:
        name: of the stage or command that failed; part of the file's name.
        root: folder of the project, whose `.qualm/logs` receives the file; None outside of a project: the system's temporary folder.
    """
    moment = time.time()
    stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(moment))}.{int(moment % 1 * 1e6):06}"
    file = f"{re.sub(r'[^A-Za-z0-9_-]+', '.', name)}-{stamp}.log"
    path = Path(tempfile.gettempdir()) / file if root is None else root / ".qualm" / "logs" / file
    head = "\n".join([f"{name} failed at {stamp} UTC", *describe_versions()])
    text = f"{head}\n\n{''.join(traceback.format_exception(error))}"
    try:
        atomic.write_bytes(path, text.encode("utf-8", "backslashreplace"))
    except OSError as reason:
        return f"traceback not written ({reason}); {TRACEBACK}=1 prints it"
    return f"traceback in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}"


def print_traceback(error: BaseException) -> None:
    """Print the traceback to standard error if QUALM_TRACEBACK is set."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
