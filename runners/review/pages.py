"""Serve pages on loopback with Gradio: images re-encoded, all text escaped.

`qualm verify --page` and `qualm calibrate` are such pages.
"""

import base64
import io
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image

from qualm.registry.plugins.extras import install_line
from qualm.runners.reporting.text import visible
from qualm.runners.reporting.thumbnails import decoded
from qualm.runners.review.page_guard import Guard

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
LONGEST_SIDE = 1000
QUIET = {"show_progress": "hidden", "concurrency_id": "one", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of every event: one at a time, no progress display, no API."""


class PageError(Exception):
    """A page cannot be served; the message says why and what to do."""


@dataclass
class Running:
    """A page that is being served; its address holds the token and is stored nowhere."""

    url: str
    port: int
    _app: Any
    _server: Any
    _thread: threading.Thread

    def close(self) -> None:
        self._app.stop_event.set()  # ends streams of events
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # hides errors of streams that are cut off
        self._server.should_exit = True
        self._thread.join(10)


def serve(build: Callable[[Any], Any], folder: Path, port: int | None = None) -> Running:
    """Serve a page on loopback until `close`, only to those who have its address.

    Args:
        folder: has page.css and page.js, which follow the shared files.
        port: on loopback; None for any free one.

    Raises:
        PageError: Gradio is not installed, or the port is taken.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # nothing leaves this machine
    try:
        import gradio
    except ImportError as error:
        raise PageError(f"the page needs Gradio: `{install_line('pages')}`") from error
    listening = _bound(port)
    free, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    outer, inner = _mounted(gradio, build(gradio), folder, f"/{token}")
    server, thread = _started(Guard(outer, free, token), listening)
    return Running(f"http://{LOOPBACK}:{free}/{token}/", free, inner, server, thread)


def _bound(port: int | None) -> socket.socket:
    """Bind a socket first, so that no other program takes the port."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port or 0))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise PageError(f"port {port or 'of loopback'}: {error}; give another with --port") from error
    return listening


def _mounted(gradio: Any, blocks: Any, folder: Path, path: str) -> tuple[Any, Any]:
    """Return the application with a page at `path`, and the page's own application."""
    css, js = ("".join(f.read_text(encoding="utf-8") for f in (HERE / f"pages.{kind}", folder / f"page.{kind}")) for kind in ("css", "js"))
    from fastapi import FastAPI

    outer = gradio.mount_gradio_app(
        FastAPI(openapi_url=None),
        blocks,
        path,
        footer_links=[],
        run_history=False,
        show_error=False,
        ssr_mode=False,
        theme=gradio.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        css=css,
        head=f"<script>{js}</script>",
    )
    return outer, outer.routes[-1].app


def _started(app: Guard, listening: socket.socket) -> tuple[Any, threading.Thread]:
    """Start a server in a thread, without an access log, which would contain the token."""
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise PageError("the page's server did not start; try again, or give another port with --port")
        time.sleep(0.01)
    return server, thread


def html(folder: Path, **values: Any) -> str:
    """Render the template page.html of a folder; values are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["visible"] = visible
    return environment.get_template("page.html").render(**values)


def trouble(why: object) -> str:
    """Return the HTML for a page that cannot be shown."""
    from markupsafe import escape

    return f'<p class="told" role="status">{escape(visible(why))}</p>'


def picture(data: bytes | None) -> str:
    """Re-encode an image as a data URI; empty if it cannot be decoded."""
    drawn, _ = decoded(data)
    return "" if drawn is None else data_uri(drawn)


def data_uri(image: PIL.Image.Image, longest: int = LONGEST_SIDE) -> str:
    """Encode an image as a data URI: small ones as PNG, others scaled down and as JPEG."""
    drawn = image.copy()
    drawn.thumbnail((longest, longest), PIL.Image.Resampling.LANCZOS)
    data = io.BytesIO()
    kind = "png" if max(drawn.size) <= 320 else "jpeg"
    drawn.save(data, "PNG") if kind == "png" else drawn.save(data, "JPEG", quality=92)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
