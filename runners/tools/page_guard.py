"""Access control of local pages: only a browser on this machine that has the page's secret address.

A page on loopback is open to every account of the machine, to every site that the browser shows (cross-site requests), and to any
name that a stranger lets point at 127.0.0.1 (DNS rebinding). So the path begins with a token that nobody can guess, `Host`, `Origin`
and `Sec-Fetch-Site` must be the page's own, only the routes that the page needs exist, and no body is larger than a decision.

The token stands in the path, not in a cookie: browsers send the cookies of 127.0.0.1 to all its ports, also to another account's.
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
"""Of a request; the longest note and the strengths of all sliders are a few hundred bytes."""

LONGEST_QUERY = 2**10

ROUTES = {
    "GET": re.compile(r"|/config|/theme\.css|/(assets|static|svelte)/.*|/gradio_api/(info|queue/data|startup-events|heartbeat/\w+)"),
    "HEAD": re.compile(""),
    "POST": re.compile(r"/gradio_api/queue/join"),
}
"""All that the page asks of Gradio, behind the token. Uploads, files, proxies and calls by programs are not among them."""

EMPTY = ("/manifest.json", "/favicon.ico")
"""What browsers ask for beside the page, without its token; there is nothing in them."""

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
"""Of every answer: nothing is loaded from elsewhere, framed, cached, or told to others."""


class Guard:
    """ASGI middleware around a page that is mounted at `path`; `token` is its secret."""

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
        """The status that a request is refused with, before anything of its body is read; 0 if it may pass."""
        path, method = scope["path"], scope["method"]
        if not (self._is_own(scope) and secrets.compare_digest(path[: len(self._path)].encode(), self._path.encode())):
            return 403
        route = path[len(self._path) :].removesuffix("/")
        if method not in ROUTES or not ROUTES[method].fullmatch(route) or ".." in route or len(scope["query_string"]) > LONGEST_QUERY:
            return 404
        return 0

    def _is_own(self, scope: Message) -> bool:
        """Whether the page itself asks, or a person who opens it: by what a browser says and no script can change."""
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
    """The request's body, or None if it is too long or breaks off; whatever length it says it has, no more is read."""
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
    """Answers with our headers in the place of the app's own; what opens an answer to other origins is taken out."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [
                (k, v) for k, v in message.get("headers", ()) if k.lower() not in HEADERS and not k.lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": [*own, *HEADERS.items()]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, body: bytes) -> None:
    """A plain answer of ours; after a refusal the connection is closed, so that what is left of a body is never read."""
    kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
    headers = {b"content-type": kind, b"content-length": str(len(body)).encode(), **({} if status == 200 else {b"connection": b"close"})}
    await send({"type": "http.response.start", "status": status, "headers": [*headers.items(), *HEADERS.items()]})
    await send({"type": "http.response.body", "body": body})
