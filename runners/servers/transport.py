"""Limits on a server's reply: its size, its duration, and the host that it comes from.

Every reply passes through `BoundedTransport`, which counts its bytes after decompression. Only necessary headers are sent.
"""

from __future__ import annotations

import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from qualm.runners.servers.protocol import ImpossibleReplyError, ReplyTooLargeError

HEADERS = ("host", "content-type", "content-length", "authorization")
"""Headers sent to any server; the client's own would reveal the machine and the organization."""
OPENAI = "api.openai.com"
OPENAI_HEADERS = ("openai-organization", "openai-project")
"""Headers sent to OpenAI only."""
MAX_REPLY_BYTES = 256 * 2**20
"""Maximum bytes of any reply."""
_WRITE_BYTES = 64 * 1024


class BoundedTransport(httpx.BaseTransport):
    """Pooled connections to one server; `bounds` limits the thread's bytes and seconds."""

    def __init__(self, address: str) -> None:
        self._time = _RequestLimits()
        proxy = environment_proxy(address)
        context = httpx.create_ssl_context() if urlsplit(address).scheme == "https" else None  # reading certificates takes long
        how: dict[str, Any] = {"ssl_context": context, "max_connections": None, "network_backend": _Backend(self._time)}
        self._pool = httpcore.HTTPProxy(proxy, **how) if proxy else httpcore.ConnectionPool(**how)

    @contextmanager
    def bounds(self, max_bytes: int, seconds: float, connect_seconds: float = 0.0) -> Iterator[None]:
        """Set this thread's limits on reply bytes and seconds; they stay when the context ends."""
        self._time.largest, self._time.deadline, self._time.connect = (
            min(max_bytes, MAX_REPLY_BYTES),
            time.monotonic() + seconds,
            connect_seconds,
        )
        yield

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = [
            (name, value) for name, value in request.headers.raw if name.decode("latin-1").lower() in _allowed_headers(request.url.host)
        ]
        headers += [(b"accept", b"application/json"), (b"accept-encoding", b"gzip"), (b"user-agent", b"qualm")]
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path)
        plain = httpcore.Request(request.method, url, headers=headers, content=request.stream, extensions=request.extensions)  # type: ignore[arg-type]
        try:
            response = self._pool.handle_request(plain)
            try:
                data = read_body(response.iter_stream(), _encoding(response.headers), self._time.largest)
            finally:
                response.close()
        except _ERRORS as error:
            raise getattr(httpx, type(error).__name__, httpx.TransportError)(str(error), request=request) from error
        rest = [(name, value) for name, value in response.headers if name.lower() in _KEPT_HEADERS]
        return httpx.Response(response.status, headers=rest, content=data, request=request)

    def close(self) -> None:
        self._pool.close()


def is_unreachable(error: BaseException | None) -> bool:
    """Return whether an error says that no connection was made: refused, unknown host, no TLS."""
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.UnsupportedProtocol)


def environment_proxy(address: str) -> str | None:
    """Return the environment's HTTP proxy URL for an https address; None if none applies.

    >>> environment_proxy("http://gpu7:8000/v1") is None
    True
    """
    parts = urlsplit(address)
    if parts.scheme != "https" or proxy_bypass(parts.hostname or ""):
        return None
    named = getproxies()
    proxy = named.get("https") or named.get("all")
    return proxy if proxy and proxy.startswith(("http://", "https://")) else None


def read_body(chunks: Iterable[bytes], encoding: str, max_bytes: int) -> bytes:
    """Return a reply's decompressed body; ReplyTooLargeError beyond `max_bytes` bytes.

    Raises:
        ReplyTooLargeError: there are more than `max_bytes`.
        ImpossibleReplyError: unrequested or invalid compression.
    """
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise ImpossibleReplyError(f"expected a reply that is plain or gzip, got content-encoding {encoding[:40]!r}")
    inflater = zlib.decompressobj(31) if "gzip" in encoding else None
    data, received = bytearray(), 0
    for chunk in chunks:
        received += len(chunk)
        try:
            data += inflater.decompress(chunk, max_bytes + 1 - len(data)) if inflater else chunk
        except zlib.error as error:
            raise ImpossibleReplyError(f"expected a reply compressed by gzip: {error}") from None
        if max(received, len(data)) > max_bytes:
            raise ReplyTooLargeError(f"expected a reply of at most {max_bytes:,} bytes, got more")
    if inflater and data and not inflater.eof:
        raise ImpossibleReplyError("expected a reply compressed by gzip, got one that is cut short")
    return bytes(data)


_KEPT_HEADERS = (b"content-type", b"retry-after", b"location")
_ERRORS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, httpcore.UnsupportedProtocol)


def _allowed_headers(host: str) -> tuple[str, ...]:
    return HEADERS + (OPENAI_HEADERS if host == OPENAI else ())


def _encoding(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return ", ".join(v.decode("latin-1").strip().lower() for n, v in headers if n.lower() == b"content-encoding")


class _RequestLimits(threading.local):
    """Time and size limits of this thread's request."""

    deadline = 0.0
    connect = 0.0
    largest = MAX_REPLY_BYTES

    def seconds_left(self, timeout: float | None) -> float:
        """Return the seconds to the deadline, at most `timeout`; ReadTimeout if it has passed.

        Raises:
            httpcore.ReadTimeout: the deadline has passed.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the reply took longer than `deadline` allows")
        return left if timeout is None else min(left, timeout)

    def left_to_connect(self, timeout: float | None) -> float:
        left = self.seconds_left(timeout)
        return min(left, self.connect or left)


class _Stream(httpcore.NetworkStream):
    """Connection whose every step ends by its thread's deadline."""

    def __init__(self, inner: httpcore.NetworkStream, clock: _RequestLimits) -> None:
        self._inner, self._clock = inner, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._clock.seconds_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _WRITE_BYTES):
            self._inner.write(buffer[at : at + _WRITE_BYTES], self._clock.seconds_left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, self._clock.left_to_connect(timeout)), self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Network backend whose connections end by their thread's deadline."""

    def __init__(self, clock: _RequestLimits) -> None:
        self._clock = clock

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **options: Any) -> _Stream:  # type: ignore[override]
        return _Stream(super().connect_tcp(host, port, self._clock.left_to_connect(timeout), *more, **options), self._clock)
