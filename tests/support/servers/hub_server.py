"""A hub of our own: a data set of the Hugging Face hub's protocol, and plain files with range requests, on this machine."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT, OLD = "a" * 40, "b" * 40
REPO = "org/things"


@dataclass
class Hub:
    """What the server has, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    """Files that the hub keeps with their SHA-256, behind a redirect."""
    claimed: dict[str, bytes] = field(default_factory=dict)
    """What the hub says of a file, where it is not what it sends."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range of every request for a file."""
    tokens: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Authorization."""
    cut: list[int] = field(default_factory=list)
    """After so many bytes each of the next replies ends."""
    statuses: list[int] = field(default_factory=list)
    """What the next requests for files are answered with."""
    pause: float = 0.0
    """Seconds after every 64 KiB."""
    etags: bool = True
    gated: bool = False
    location: str = ""
    """Where files are redirected to."""

    def address(self, name: str) -> str:
        return f"{self.url}/plain/{name}"


@contextmanager
def hub_server(**files: bytes) -> Iterator[Hub]:
    hub = Hub(files=dict(files))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else the second piece of a reply waits 40 ms

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            hub.tokens.append((path, self.headers.get("Authorization")))
            if path.startswith("/api/datasets/"):
                self._listing(path)
                return
            if path.startswith("/api/"):  # whatever else the client library asks
                self._plain(404, b"{}")
                return
            hub.asked.append((path, self.headers.get("Range")))
            if hub.statuses:
                self._plain(hub.statuses.pop(0), b"")
                return
            name = path.split(f"/resolve/{COMMIT}/")[-1].removeprefix("/plain/").removeprefix("/store/")
            if hub.location or ("/resolve/" in path and name in hub.large):
                self._plain(302, b"", Location=hub.location or f"/store/{name}")
            elif name in hub.files:
                self._file(hub.files[name])
            else:
                self._plain(404, b"")

        def _listing(self, path: str) -> None:
            revision = path.rpartition("/revision/")[2]
            if REPO not in path:
                self._plain(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
            elif hub.gated:
                self._plain(403, b"{}", **{"X-Error-Code": "GatedRepo"})
            elif revision not in (COMMIT, "main"):
                self._plain(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
            else:
                siblings = [self._sibling(name, hub.claimed.get(name, data)) for name, data in hub.files.items()]
                self._plain(200, json.dumps({"id": REPO, "sha": COMMIT, "siblings": siblings}).encode())

        def _sibling(self, name: str, data: bytes) -> dict[str, object]:
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            lfs = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 130}
            return {"rfilename": name, "size": len(data), "blobId": blob, **({"lfs": lfs} if name in hub.large else {})}

        def _plain(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def _file(self, data: bytes) -> None:
            etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
            begin, wanted = 0, self.headers.get("Range")
            if wanted and self.headers.get("If-Range", etag) == etag:
                begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            if begin > len(data) or (begin == len(data) and begin):
                self._plain(416, b"")
                return
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            if hub.etags:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(data) - begin))
            self.end_headers()
            body = data[begin:]
            body = body[: hub.cut.pop(0)] if hub.cut else body
            for at in range(0, len(body), 1 << 16):
                self.wfile.write(body[at : at + (1 << 16)])
                time.sleep(hub.pause)
            self.close_connection = len(body) < len(data) - begin or self.close_connection

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
