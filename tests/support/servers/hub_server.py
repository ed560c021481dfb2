"""A server on this machine that speaks the Hugging Face hub's protocol, and sends plain files with range requests.

It has one dataset and one model, of the same name, files and commit.
"""

from __future__ import annotations

import hashlib
import json
import re
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
    commit: str = COMMIT
    """What `main` is now; earlier commits stay."""
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

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            hub.tokens.append((path, self.headers.get("Authorization")))
            if path.startswith(("/api/datasets/", "/api/models/")) and "/tree/" not in path:
                self._listing(path)
                return
            if path.startswith("/api/"):  # whatever else the client library asks
                self._plain(404, b"{}")
                return
            if self.command == "GET":
                hub.asked.append((path, self.headers.get("Range")))
            if hub.statuses:
                self._plain(hub.statuses.pop(0), b"")
                return
            name = re.sub(r"^.*/resolve/[0-9a-f]{40}/", "", path).removeprefix("/plain/").removeprefix("/store/")
            if hub.location or ("/resolve/" in path and name in hub.large):
                self._redirect(path, name)
            elif name in hub.files:
                self._file(hub.files[name], self._commit(path))
            else:
                self._plain(404, b"", **({"X-Error-Code": "EntryNotFound"} if "/resolve/" in path else {}))

        def _redirect(self, path: str, name: str) -> None:
            linked = {"X-Linked-Size": str(len(hub.files[name])), "X-Linked-Etag": self._digest(name)} if name in hub.files else {}
            elsewhere = hub.url.replace("127.0.0.1", "localhost")  # another host, as the hub's storage is
            self._plain(302, b"", Location=hub.location or f"{elsewhere}/store/{name}", **self._commit(path), **linked)

        def _commit(self, path: str) -> dict[str, str]:
            found = re.search(r"/resolve/([0-9a-f]{40})/", path)
            return {"X-Repo-Commit": found[1]} if found else {}

        def _digest(self, name: str) -> str:
            return f'"{hashlib.sha256(hub.claimed.get(name, hub.files[name])).hexdigest()}"'

        def _listing(self, path: str) -> None:
            revision = path.rpartition("/revision/")[2]
            if REPO not in path:
                self._plain(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
            elif hub.gated:
                self._plain(403, b"{}", **{"X-Error-Code": "GatedRepo"})
            elif revision not in (COMMIT, hub.commit, "main"):
                self._plain(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
            else:
                siblings = [self._sibling(name, hub.claimed.get(name, data)) for name, data in hub.files.items()]
                facts = {"id": REPO, "sha": hub.commit if revision == "main" else revision, "siblings": siblings}
                facts |= {"gated": False, "cardData": {"license": "mit"}}
                self._plain(200, json.dumps(facts).encode())

        def _sibling(self, name: str, data: bytes) -> dict[str, object]:
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            lfs = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 130}
            return {"rfilename": name, "size": len(data), "blobId": blob, **({"lfs": lfs} if name in hub.large else {})}

        def _plain(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def _file(self, data: bytes, more: dict[str, str]) -> None:
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
            for key, value in more.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            body = data[begin:]
            body = body[: hub.cut.pop(0)] if hub.cut else body
            for at in range(0, len(body), 1 << 16):
                self.wfile.write(body[at : at + (1 << 16)])
                time.sleep(hub.pause)
            self.close_connection = len(body) < len(data) - begin or self.close_connection

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
