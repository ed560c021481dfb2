"""Serve pages on loopback with Gradio: images re-encoded, all text escaped.

A page on loopback is open to all accounts of the machine, to all sites in the browser (cross-site requests), and to names that point at
127.0.0.1 (DNS rebinding). So the path begins with a random token; `Host`, `Origin` and `Sec-Fetch-Site` must be the page's own; only the
needed routes exist; and bodies are small. The token is not in a cookie, as browsers send cookies of 127.0.0.1 to all ports.
"""

import base64
import io
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image

from qualm.registry.plugins.extras import install_line
from qualm.runners.reporting.text import visible
from qualm.runners.reporting.thumbnails import decoded

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 64 * 2**10
"""Maximum bytes of a request; the longest note and all sliders are a few hundred."""

MAX_QUERY_CHARACTERS = 2**10

ROUTES = {
    "GET": re.compile(r"|/config|/theme\.css|/(assets|static|svelte)/.*|/gradio_api/(info|queue/data|startup-events|heartbeat/\w+)"),
    "HEAD": re.compile(""),
    "POST": re.compile(r"/gradio_api/queue/join"),
}
"""Routes of Gradio that the page needs, behind the token; no uploads, files, proxies or API."""

EMPTY = ("/manifest.json", "/favicon.ico")
"""Paths that browsers request without the token; they have no content."""

ANSWERS = {
    403: b"Open the whole address that the terminal shows: this page answers to that one alone.",
    404: b"There is no such page.",
    413: f"More than {MAX_BODY_BYTES:,} bytes; a page takes no uploads.".encode(),
}

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": POLICY.encode(),
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
"""Headers of every response: the page loads nothing from elsewhere, and cannot be framed, cached or read by other sites."""


class Guard:
    """ASGI middleware that admits only requests of the page at the secret path `token`."""

    def __init__(self, app: App, port: int, token: str) -> None:
        self._app, self._path = app, f"/{token}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] in EMPTY and self._is_own(scope):
            await _answer(send, 200, b'{"name": "Qualm"}')
        elif status := self._refusal(scope):
            await _answer(send, status, ANSWERS[status])
        elif (body := await _body(scope, receive)) is None:
            await _answer(send, 413, ANSWERS[413])
        else:
            await self._app(scope, _replayed(body, receive), _guarded(send))

    def _refusal(self, scope: Message) -> int:
        """Return the HTTP status that refuses a request before its body is read; 0 if allowed."""
        path, method = scope["path"], scope["method"]
        if not (self._is_own(scope) and secrets.compare_digest(path[: len(self._path)].encode(), self._path.encode())):
            return 403
        route = path[len(self._path) :].removesuffix("/")
        if (
            method not in ROUTES
            or not ROUTES[method].fullmatch(route)
            or ".." in route
            or len(scope["query_string"]) > MAX_QUERY_CHARACTERS
        ):
            return 404
        return 0

    def _is_own(self, scope: Message) -> bool:
        """Return whether a request has a known Host and is no other site's, opened links aside.

        Requests without the headers Origin and Sec-Fetch-Site, such as those of curl, need the Host alone.
        """
        hosts, origins, sites = (_values(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
        opened = scope["method"] == "GET" and _values(scope, b"sec-fetch-mode") == ["navigate"]
        return (
            len(hosts) == 1
            and hosts[0] in self._hosts
            and all(origin == f"http://{hosts[0]}" for origin in origins)
            and (opened or all(site in ("same-origin", "none") for site in sites))
        )


def _values(scope: Message, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1").lower() for key, value in headers if key.lower() == name]


async def _body(scope: Message, receive: Receive) -> bytes | None:
    """Return the request's body; None if it is too long or incomplete."""
    if any(not length.isdecimal() or len(length) > 9 or int(length) > MAX_BODY_BYTES for length in _values(scope, b"content-length")):
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _guarded(send: Send) -> Send:
    """Return a `send` that sets HEADERS on each response and drops the app's CORS headers."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (k, v) for k, v in message.get("headers", ()) if k.lower() not in HEADERS and not k.lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": [*headers, *HEADERS.items()]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, body: bytes) -> None:
    """Send a short response; after a refusal, close the connection."""
    kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
    headers = {b"content-type": kind, b"content-length": str(len(body)).encode(), **({} if status == 200 else {b"connection": b"close"})}
    await send({"type": "http.response.start", "status": status, "headers": [*headers.items(), *HEADERS.items()]})
    await send({"type": "http.response.body", "body": body})


HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
LONGEST_SIDE = 1000
QUIET = {"show_progress": "hidden", "concurrency_id": "one", "concurrency_limit": 1, "api_visibility": "private"}
"""Options of every event: one at a time, no progress display, no API."""


class PageError(Exception):
    """A page cannot be served; the message says why and what to do."""


@dataclass
class ServedPage:
    """A page that is being served, with its secret address."""

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


def serve(build: Callable[[Any], Any], folder: Path, port: int | None = None) -> ServedPage:
    """Serve the page that `build(gradio)` makes on loopback; call `close` on the result.

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
    listening = _bind_socket(port)
    free, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    outer, inner = _mount_page(gradio, build(gradio), folder, f"/{token}")
    server, thread = _start_server(Guard(outer, free, token), listening)
    return ServedPage(f"http://{LOOPBACK}:{free}/{token}/", free, inner, server, thread)


def _bind_socket(port: int | None) -> socket.socket:
    """Return a listening socket on loopback; PageError if the port is taken.

    It is bound early, so that no other program takes the port.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port or 0))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise PageError(f"port {port or 'of loopback'}: {error}; give another with --port") from error
    return listening


def _mount_page(gradio: Any, blocks: Any, folder: Path, path: str) -> tuple[Any, Any]:
    """Mount a page at `path`, styled by `folder`; return (outer application, the page's own)."""
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


def _start_server(app: Guard, listening: socket.socket) -> tuple[Any, threading.Thread]:
    """Start a server in a thread, and return both; no access log, which holds the token."""
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
    """Return the template page.html of a folder rendered with escaped values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["visible"] = visible
    return environment.get_template("page.html").render(**values)


def trouble(why: object) -> str:
    """Return HTML that says why a page cannot be shown."""
    from markupsafe import escape

    return f'<p class="told" role="status">{escape(visible(why))}</p>'


def picture(data: bytes | None) -> str:
    """Return an image file's bytes re-encoded as a data URI; "" if not decodable or None."""
    drawn, _ = decoded(data)
    return "" if drawn is None else data_uri(drawn)


def data_uri(image: PIL.Image.Image, max_side: int = LONGEST_SIDE) -> str:
    """Return an image within `max_side` as a data URI: PNG up to 320 pixels a side, else JPEG."""
    drawn = image.copy()
    drawn.thumbnail((max_side, max_side), PIL.Image.Resampling.LANCZOS)
    data = io.BytesIO()
    kind = "png" if max(drawn.size) <= 320 else "jpeg"
    drawn.save(data, "PNG") if kind == "png" else drawn.save(data, "JPEG", quality=92)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
