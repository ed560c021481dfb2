"""Access control of local pages: only a browser on this machine with the page's secret address gets in.

A page on loopback is open to all accounts of the machine, to all sites in the browser (cross-site requests), and to names that point at
127.0.0.1 (DNS rebinding). So the path begins with a random token; `Host`, `Origin` and `Sec-Fetch-Site` must be the page's own; only the
needed routes exist; and bodies are small. The token is not in a cookie, as browsers send cookies of 127.0.0.1 to all ports.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LONGEST_BODY = 64 * 2**10
"""Maximum bytes of a request; the longest note and all sliders are a few hundred."""

LONGEST_QUERY = 2**10

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
    413: f"More than {LONGEST_BODY:,} bytes; a page takes no uploads.".encode(),
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
    """ASGI middleware around a page at the path `token`."""

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
        """Return the status that refuses a request before its body is read; 0 if it may pass."""
        path, method = scope["path"], scope["method"]
        if not (self._is_own(scope) and secrets.compare_digest(path[: len(self._path)].encode(), self._path.encode())):
            return 403
        route = path[len(self._path) :].removesuffix("/")
        if method not in ROUTES or not ROUTES[method].fullmatch(route) or ".." in route or len(scope["query_string"]) > LONGEST_QUERY:
            return 404
        return 0

    def _is_own(self, scope: Message) -> bool:
        """Return True for requests of the page itself or of a person who opens it."""
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
    if any(not length.isdecimal() or len(length) > 9 or int(length) > LONGEST_BODY for length in _values(scope, b"content-length")):
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > LONGEST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _guarded(send: Send) -> Send:
    """Replace the app's headers by ours, without those for other origins."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (k, v) for k, v in message.get("headers", ()) if k.lower() not in HEADERS and not k.lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": [*headers, *HEADERS.items()]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, body: bytes) -> None:
    """Send a short response; after a refusal close the connection."""
    kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
    headers = {b"content-type": kind, b"content-length": str(len(body)).encode(), **({} if status == 200 else {b"connection": b"close"})}
    await send({"type": "http.response.start", "status": status, "headers": [*headers.items(), *HEADERS.items()]})
    await send({"type": "http.response.body", "body": body})
