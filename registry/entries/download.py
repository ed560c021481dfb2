"""Download of a file over https: resumable, and verified by its checksum.

A file that is still coming is NAME.part; it goes on by a range request where the server says that the file is the one that was begun
(`If-Range` with its ETag) or where the checksum will tell. Only what is whole and right gets its name.
"""

import contextlib
import errno
import hashlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

import httpx

from qualm.registry.entries import sentences as say
from qualm.registry.entries.lock import FetchError
from qualm.registry.system import atomic, textfiles
from qualm.registry.system.disk_errors import explain_error
from qualm.registry.text import format_size, quoted

PART, TAG = ".part", ".part-etag"
MAX_TRIES = 6
WAIT = 1.0
"""Seconds before the second try; each further one waits twice as long."""
MAX_WAIT_SECONDS = 60.0
MAX_SILENCE = 20.0
"""Seconds for which a server that cannot be reached is tried."""
UNREACHABLE: set[str] = set()
"""Hosts that could not be reached; further files of theirs are tried once."""
_RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class RemoteFile:
    """A file to download: name, URL, expected size and checksums, HTTP headers."""

    name: str
    """Its path in the entry, or of an archive."""
    url: str
    size: int | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Who says so -> the SHA-256 that it must have."""
    blob: str | None = None
    """Git's object id, where the hub has no SHA-256: SHA-1 of `blob SIZE`, a zero byte and the content."""
    headers: Mapping[str, str] = field(default_factory=dict)


def client(timeout: float = 30) -> httpx.Client:
    """Return an HTTP client that refuses all but https and this machine's http."""
    limits = httpx.Timeout(timeout, connect=min(timeout, MAX_SILENCE / 2), read=4 * timeout)
    return httpx.Client(follow_redirects=True, timeout=limits, verify=_tls_context(), event_hooks={"request": [_only_https]})


_tls_context = cache(httpx.create_ssl_context)
"""Returns the trusted certificates, read once: that takes a tenth of a second."""


def announced_size(file: RemoteFile, web: httpx.Client, silent: set[str]) -> int | None:
    """Ask the server for a file's size in bytes; None if unknown; add mute hosts to `silent`."""
    host = httpx.URL(file.url).host
    if host in silent:
        return None
    try:
        reply = web.head(file.url, headers={**file.headers, "Accept-Encoding": "identity"})
    except (httpx.HTTPError, FetchError):
        silent.add(host)
        return None
    length = reply.headers.get("content-length", "")
    return int(length) if reply.is_success and length.isdecimal() else None


def _only_https(request: httpx.Request) -> None:
    if request.url.scheme != "https" and request.url.host not in _LOOPBACK:
        raise FetchError(f"{request.url}: not https; what comes over it may be anything")


def safe_path(folder: Path, name: str) -> Path:
    """Return `name` as a path in `folder`; FetchError if it leads outside or cannot be used."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or not name.isprintable() or name.endswith((PART, TAG)):
        raise FetchError(f"{quoted(name)}: expected a printable name inside {folder}, not ending in {PART} or {TAG}; it is not downloaded")
    target = folder / path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise FetchError(f"{quoted(name)}: leads out of {folder} by a link; it is not downloaded")
    return target


def download(file: RemoteFile, folder: Path, web: httpx.Client, progress: Callable[[str, int], None]) -> str:
    """Download or resume a file unless there, verify it, return its SHA-256; else FetchError."""
    target = safe_path(folder, file.name)
    try:
        if target.exists():
            progress(file.name, target.stat().st_size)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _download(file, target, web, progress)
        return verified(file, target)
    except OSError as error:
        raise FetchError(f"{explain_error(error, str(target))}; what came is kept, the same command goes on") from error


def _download(file: RemoteFile, target: Path, web: httpx.Client, progress: Callable[[str, int], None]) -> None:
    host = httpx.URL(file.url).host
    silent_since = 0.0
    for attempt in range(MAX_TRIES):
        wait = min(MAX_WAIT_SECONDS, WAIT * 2**attempt)
        begin = time.monotonic()
        try:
            retry_after = _stream(file, target, web, progress)
        except httpx.TransportError as error:
            why = f"{type(error).__name__}: {error}".strip(": ")
            silent_since = (silent_since or begin) if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else 0.0
            if silent_since and (host in UNREACHABLE or time.monotonic() + wait - silent_since > MAX_SILENCE):
                UNREACHABLE.add(host)
                raise FetchError(
                    f"{file.url}: {host} cannot be reached ({why}); check the network and the address, the same command goes on"
                ) from error
            if attempt + 1 < MAX_TRIES:
                print(say.WAITING_FOR_HOST.format(file=file.name, host=host, why=why, seconds=wait), file=sys.stderr, flush=True)
            else:
                raise FetchError(f"{file.url}: no answer, or none to the end ({why}); the same command goes on where it stopped") from error
        else:
            if retry_after is None:
                return
            silent_since = 0.0
            wait = retry_after if retry_after > 0 else wait
            if attempt + 1 == MAX_TRIES:
                raise FetchError(f"{file.url}: the server is too busy or broken; the same command goes on where it stopped")
        time.sleep(wait)


def _stream(file: RemoteFile, target: Path, web: httpx.Client, progress: Callable[[str, int], None]) -> float | None:
    """Request a file, writing it to `target`; return None if complete, else seconds to wait.

    0 stands for the usual delay. Raise FetchError if the server refuses, or sends more than was announced.
    """
    part, tag = target.with_name(target.name + PART), target.with_name(target.name + TAG)
    begun, validator = _partial_state(file, part, tag)
    headers = {**file.headers, "Accept-Encoding": "identity"}
    if begun:
        headers |= {"Range": f"bytes={begun}-", **({"If-Range": validator} if validator else {})}
    with web.stream("GET", file.url, headers=headers) as reply:
        if reply.status_code == 416:  # what is here is no beginning of what is there
            part.unlink()
            return 0.0
        if reply.status_code in _RETRY_STATUSES:
            return _retry_after(reply)
        if reply.status_code not in (200, 206):
            raise FetchError(f"{file.url}: the server answered {reply.status_code} {reply.reason_phrase}; {_advice(reply.status_code)}")
        if reply.status_code == 206 and not reply.headers.get("content-range", "").startswith(f"bytes {begun}-"):
            part.unlink(missing_ok=True)
            return 0.0
        goes_on = reply.status_code == 206
        etag = reply.headers.get("etag", "")
        tag.write_text("" if etag.startswith("W/") else etag, encoding="utf-8", newline="\n")
        come = begun if goes_on else 0
        progress(file.name, come)
        with part.open("ab") as handle:
            handle.truncate(come)
            for chunk in reply.iter_raw():
                come += len(chunk)
                if file.size is not None and come > file.size:
                    raise FetchError(
                        f"{file.url}: more than the {file.size:,} bytes that were announced; the download was stopped. Try again, and if "
                        "it stays so, compare the file at its source with the card"
                    )
                handle.write(chunk)
                progress(file.name, len(chunk))
    if file.size is not None and come < file.size:
        return 0.0
    atomic.publish(part, target)
    tag.unlink(missing_ok=True)
    return None


def _partial_state(file: RemoteFile, partial_file: Path, etag_file: Path) -> tuple[int, str]:
    """Return (bytes so far, ETag or "") of a download to resume; (0, "") to start anew."""
    if not partial_file.exists():
        return 0, ""
    validator = ""
    with contextlib.suppress(textfiles.TextFileError):
        validator = textfiles.read_text(etag_file).strip()
    has_checksum = bool(file.sha256) or file.blob is not None
    return (partial_file.stat().st_size, validator) if validator or has_checksum else (0, "")


def _retry_after(reply: httpx.Response) -> float:
    seconds = reply.headers.get("retry-after", "")
    return min(MAX_WAIT_SECONDS, float(seconds)) if seconds.isdecimal() else 0.0


def _advice(status: int) -> str:
    if status in (401, 403):
        return "it wants an account or an accepted licence: open the address in a browser"
    if status in (404, 410):
        return "the file is no longer there: look at the card's source, fetch it by hand and `qualm data add NAME --from FOLDER`"
    return "try again later"


def verified(file: RemoteFile, target: Path) -> str:
    """Return a file's SHA-256; if size or checksum is wrong, delete it and raise FetchError."""
    with target.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    size = target.stat().st_size
    wrong = [f"SHA-256 {digest[:12]}… where {who} has {expected[:12]}…" for who, expected in file.sha256.items() if expected != digest]
    if file.size is not None and size != file.size:
        wrong.append(f"{format_size(size)} where {format_size(file.size)} were announced")
    if not wrong and file.blob is not None and (blob := _blob(target, size)) != file.blob:
        wrong.append(f"git object {blob[:12]}… where the hub has {file.blob[:12]}…")
    if wrong:
        target.unlink()
        raise FetchError(
            f"{file.url}: {', and '.join(wrong)}; it was deleted. Fetch it again; if it stays so, it is not the file that was pinned"
        )
    return digest


def _blob(path: Path, size: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)).hexdigest()


def need_room(folder: Path, size: int) -> None:
    """Raise FetchError if the disk of `folder` has fewer than `size` bytes free."""
    free = shutil.disk_usage(folder).free
    if size > free:
        raise FetchError(
            f"{folder}: {format_size(size)} are still to be downloaded and only {format_size(free)} are free; make room first"
        ) from OSError(errno.ENOSPC, "")


def bytes_so_far(target: Path) -> int:
    """Return the bytes that an interrupted download of a file left; 0 if none."""
    part = target.with_name(target.name + PART)
    return part.stat().st_size if part.exists() else 0
