"""`qualm view`: serve the page to this machine, making each file on request.

It is read-only, so it needs no token. Loopback excludes other machines; the `Host` header excludes names that point at 127.0.0.1 (DNS
rebinding); `Sec-Fetch-Site` and the resource policy exclude other sites in the same browser.
"""

from __future__ import annotations

import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from qualm.compiler.spec import sentences as say
from qualm.compiler.spec.errors import ProjectError
from qualm.compiler.viewing.site import KINDS, POLICY, Site

LOOPBACK = "127.0.0.1"
PORT = 7864
"""First port to try, so that links to the page stay valid."""
MAX_PATH = 2_000
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response: the page loads nothing from elsewhere and cannot be framed or read by other sites."""


class PageServer:
    """HTTP server of the page on 127.0.0.1, in a thread, until closed."""

    def __init__(self, site: Site, port: int | None = None) -> None:
        """Start serving a site on `port`; by default on PORT or any free port.

        Raises:
            ProjectError: the port is taken.
        """
        self._server = _bind_server(site, port)
        self.port: int = self._server.server_address[1]
        self.url = f"http://{LOOPBACK}:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        super().__init__((LOOPBACK, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of connections that the browser closed; report others."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _bind_server(site: Site, port: int | None) -> _Http:
    try:
        return _Http(site, PORT if port is None else port)
    except (OSError, OverflowError) as error:
        if port is None:
            return _Http(site, 0)
        raise ProjectError(f"port {port}: {error}; give another with --port") from error


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version, sys_version = "qualm", ""
    timeout = 30

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        path = unquote(self.path.partition("?")[0]).removeprefix("/")
        if not self._is_allowed():
            self._send(HTTPStatus.FORBIDDEN, say.WRONG_HOST.encode(), "", body)
            return
        try:
            content = self.server.site.file(path) if len(path) <= MAX_PATH else None
        except ProjectError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, str(error).encode(), "", body)
            return
        if content is None:
            self._send(HTTPStatus.NOT_FOUND, say.NO_SUCH_FILE.encode(), "", body)
        else:
            self._send(HTTPStatus.OK, content, KINDS.get(PurePosixPath(path or "index.html").suffix, ""), body)

    def _is_allowed(self) -> bool:
        """Return whether a request is to this host, and no other site embeds or fetches it.

        A person may come by a link from any site. A request without `Sec-Fetch` headers is allowed.
        """
        port = self.server.server_address[1]
        hosts = self.headers.get_all("Host", [])
        navigates = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.headers.get("Sec-Fetch-Dest") == "document"
        site = self.headers.get("Sec-Fetch-Site", "none")
        return (
            len(hosts) == 1 and hosts[0] in (f"{LOOPBACK}:{port}", f"localhost:{port}") and (navigates or site in ("same-origin", "none"))
        )

    def _send(self, status: HTTPStatus, content: bytes, kind: str, body: bool) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-cache" if kind == KINDS[".webp"] else "no-store")
        self.send_header("Content-Type", kind or "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, as the terminal shows the address."""
