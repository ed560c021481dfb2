"""What commands that serve a page share: who sits there, and serving until Ctrl-C."""

from __future__ import annotations

import getpass
import re
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.pages import Running


def own_name() -> str:
    """Who sits at this machine, as far as it makes a reviewer's name."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:40] or "reviewer"


def until_stopped(serve: Callable[[], Running], told: Callable[[str], str]) -> None:
    """Serve a page until Ctrl-C or SIGTERM, which close it.

    Args:
        serve: begins.
        told: the page's address -> what to print.
    """
    stop = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {s: signal.signal(s, leave) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        running = serve()
        print(told(running.url), flush=True)
        stop.wait()
        running.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
