"""Events of a stage for `qualm run`: lines of JSON in the file that an environment variable names.

Without a reader nothing is written. Appending never waits for the reader, and loses nothing when either side is killed.
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
"""Environment variable of commands that DVC runs: the name of the stage."""
ANSWERS_EVERY = 1.0
"""Minimum seconds between two answers, which are only a sample."""
MAX_CHARACTERS = 400
"""Maximum characters of a question or answer."""
_next_answer = 0.0


def is_read() -> bool:
    return FILE in os.environ


def tell(event: str, **facts: Any) -> None:
    """Append an event, with facts, to the file that `qualm run` reads, if there is one."""
    if not is_read():
        return
    path = Path(os.environ[FILE])
    with suppress(OSError):
        if path.exists():
            by = {"by": stage} if (stage := os.environ.get(STARTED_BY_DVC)) else {}
            Journal(path, durable=False).append(json.dumps({"event": event, **by, **facts}).encode() + b"\n")


def tell_answer(question: str, answer: str) -> None:
    """Report a question and an answer, both cut, to `qualm run`, at most one per second."""
    global _next_answer
    if is_read() and (now := time.monotonic()) >= _next_answer:
        _next_answer = now + ANSWERS_EVERY
        tell("answer", question=question[:MAX_CHARACTERS], answer=answer[:MAX_CHARACTERS])
