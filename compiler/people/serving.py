"""Shared by commands that serve a page: the reviewer's name, and serving until Ctrl-C."""

from __future__ import annotations

import getpass
import os
import re
import signal
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qualm.runners.tools.pages import Running

OPENING = ".qualm/pages"
"""Below the checkout: files that open a browser while a page is served."""

ADVICE = "Anyone who has this address can decide here; it ends with this command"
"""Said beside a page's address."""


def own_name() -> str:
    """Who sits at this machine, as far as it makes a reviewer's name."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # `pwd`, which Windows does not have
        name = ""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:40] or "reviewer"


def until_stopped(serve: Callable[[], Running], banner: Callable[[str], str], browser: Path | None) -> None:
    """Serve a page until Ctrl-C or SIGTERM, which close it.

    Args:
        browser: a folder of this checkout, to open the person's browser by; None leaves that to the person.
    """
    with stop_event() as stop:
        running = serve()
        print(banner(running.url), flush=True)
        with open_browser(running.url, browser) if browser is not None else nullcontext():
            stop.wait()
        running.close()


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {s: signal.signal(s, leave) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def open_browser(url: str, folder: Path) -> Iterator[Path]:
    """Open a secret address by way of a file that only this account reads: a command line shows it to every account.

    Args:
        folder: where the file lies while the page is served; below the checkout, since some browsers may not read /tmp.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(".html", "open-", folder)  # mode 0600
    file = Path(name)
    try:
        os.close(descriptor)
        file.write_text(
            f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Open</a>', encoding="utf-8", newline="\n"
        )
        with suppress(webbrowser.Error):
            webbrowser.open(file.as_uri())
        yield file
    finally:
        file.unlink(missing_ok=True)
