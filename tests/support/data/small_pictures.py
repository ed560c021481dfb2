"""Pictures of a few pixels, and the pieces of a PNG file."""

import io
import struct
import zlib

from PIL import Image


def png(red: int) -> bytes:
    """A PNG file of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (red, 0, 0)).save(file, "PNG")
    return file.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A piece of a PNG file, with its length and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
