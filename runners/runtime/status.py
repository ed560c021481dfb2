"""What a stage tells the command that started it: lines of JSON in the file that an environment variable names.

`qualm run` makes the file and shows what comes; where nobody reads, nothing is written. Appending to a file never waits for the
reader and loses nothing when either side is killed.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from qualm.runners.runtime.journal import Journal

FILE = "QUALM_STATUS_FILE"
STARTED_BY_DVC = "DVC_STAGE"
"""DVC sets it for the commands that it runs, to the name of the stage."""
ANSWERS_EVERY = 1.0
"""Seconds between two answers that are told: a sample of what comes, not a second record of it."""
LONGEST = 400
"""Characters of a question or an answer that are told."""
_next_answer = 0.0


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
            by = {"by": stage} if (stage := os.environ.get(STARTED_BY_DVC)) else {}
            Journal(path, durable=False).append(json.dumps({"event": event, **by, **facts}).encode() + b"\n")


def tell_answer(question: str, answer: str) -> None:
    """Tell of one answer among those that were just given, for whoever looks on; mostly nothing, as one a second is enough."""
    global _next_answer
    if is_read() and (now := time.monotonic()) >= _next_answer:
        _next_answer = now + ANSWERS_EVERY
        tell("answer", question=question[:LONGEST], answer=answer[:LONGEST])
