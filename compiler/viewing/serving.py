"""Serve a page until Ctrl-C, and find the reviewer's name."""

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
    from qualm.runners.review.pages import ServedPage

OPENING = ".qualm/pages"
"""Folder of files that open a browser while a page is served."""


def login_name() -> str:
    """Return the user's login with only letters, digits and _.-; "reviewer" if unknown."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # Windows has no `pwd`
        name = ""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._")[:40] or "reviewer"


def until_stopped(serve: Callable[[], ServedPage], banner: Callable[[str], str], browser: Path | None) -> None:
    """Serve a page until Ctrl-C or SIGTERM: print its banner, open it if asked, close it.

    Args:
        serve: starts the page in the background.
        banner: formats what is printed, from the page's address.
        browser: folder for opening the user's browser; None = do not open it.
    """
    with stop_event() as stop:
        running = serve()
        print(banner(running.url), flush=True)
        with open_browser(running.url, browser) if browser is not None else nullcontext():
            stop.wait()
        running.close()


@contextmanager
def stop_event() -> Iterator[threading.Event]:
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
    """Open a URL in the browser by a private HTML file; yield the file, delete it after.

    The file is removed on exit. A command line would show the address to every account.

    Args:
        folder: place of the file, in the checkout, since some browsers may not read /tmp.
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
