"""Members of an untrusted zip archive, read into memory one by one and never written to disk.

Inspect compresses with Zstandard, which Python's zipfile cannot open before 3.14, so compressed bytes are unpacked here, by
zlib or by Arrow, no further than a limit, and checked against the archive's checksum.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType

MAX_MEMBER = 256 * 2**20
"""Bytes that one member may unpack to; one sample of a log is one member."""
FREE, RATIO = 8 * 2**20, 100
"""A member that unpacks to more than so many times its size is refused, beyond this many bytes; so is an archive, beyond ten times them."""
_ZSTANDARD = 93


class LogArchiveError(Exception):
    """Refused or damaged archive or member, with the reason."""


class Archive:
    """An open zip archive."""

    def __init__(self, path: Path) -> None:
        """Read the directory of a zip archive.

        Raises:
            ArchiveError: not a zip archive, or its members claim more bytes than the file has.
        """
        self._handle = path.open("rb")
        try:
            with zipfile.ZipFile(self._handle) as directory:
                self.members = {info.filename: info for info in directory.infolist()}  # of two of one name the last counts
            if sum(info.compress_size for info in self.members.values()) > path.stat().st_size:
                raise LogArchiveError("its members overlap, as in archives made to exhaust memory; it is refused: copy the log again")
            if (size := sum(info.file_size for info in self.members.values())) > max(10 * FREE, RATIO * path.stat().st_size):
                raise LogArchiveError(f"unpacks to {size:,} bytes, more than {RATIO} times its size; it is refused")
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
            self._handle.close()
            raise LogArchiveError(f"not a whole zip archive: {error}; copy it again") from error
        except LogArchiveError:
            self._handle.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._handle.close()

    def read(self, name: str, limit: int = MAX_MEMBER) -> bytes:
        """Return a member's bytes.

        Raises:
            ArchiveError: it unpacks to more than `limit`, is damaged, encrypted, or compressed in another way.
        """
        info = self.members[name]
        limit = min(limit, max(FREE, RATIO * info.compress_size))
        if info.file_size > limit:
            raise LogArchiveError(f"unpacks to {info.file_size:,} bytes; more than {limit:,} are refused")
        if info.flag_bits & 1:
            raise LogArchiveError("is encrypted; zip the log anew without a password")
        self._handle.seek(info.header_offset)
        header = self._handle.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise LogArchiveError("has no header where the directory says: damaged, copy it again")
        self._handle.seek(sum(struct.unpack("<HH", header[26:30])), 1)
        data = _unpacked(self._handle.read(info.compress_size), info.compress_type, limit)
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise LogArchiveError("is damaged: length or checksum differ from the directory's; copy it again")
        return data


def _unpacked(data: bytes, method: int, limit: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return data
    try:
        if method == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-15).decompress(data, limit + 1)
        elif method == _ZSTANDARD:
            import pyarrow as pa

            content = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(limit + 1)
        else:
            raise LogArchiveError(f"is compressed by method {method}; stored, deflated and Zstandard are read: zip the log anew")
    except (zlib.error, OSError) as error:
        raise LogArchiveError(f"is damaged: {error}") from error
    if len(content) > limit:
        raise LogArchiveError(f"unpacks to more than {limit:,} bytes, which are refused")
    return content
