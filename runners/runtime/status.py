"""What a stage tells the command that started it: lines of JSON in the file that an environment variable names.

`qualm run` makes the file and shows what comes; where nobody reads, nothing is written. Appending to a file never waits for the
reader and loses nothing when either side is killed.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from qualm.runners.runtime.journal import Journal

FILE = "QUALM_STATUS_FILE"


def is_read() -> bool:
    """Whether somebody reads what is told."""
    return FILE in os.environ


def tell(event: str, **facts: Any) -> None:
    """Append one event; where the file cannot be written, as on another machine of a launcher, nothing is told."""
    if not is_read():
        return
    path = Path(os.environ[FILE])
    with suppress(OSError):
        if path.exists():
            Journal(path, durable=False).append(json.dumps({"event": event, **facts}).encode() + b"\n")


def position() -> int:
    """Where the next event will stand."""
    return Path(os.environ[FILE]).stat().st_size if is_read() else 0


def told_since(position: int, event: str) -> bool:
    """Whether such an event was told after a position."""
    if not is_read():
        return False
    with Path(os.environ[FILE]).open("rb") as file:
        file.seek(position)
        return any(json.loads(line)["event"] == event for line in file)
