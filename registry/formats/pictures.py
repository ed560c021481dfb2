"""Opening of image files: supported formats and conversion to RGB pixels.

A model, a perceptual hash, a reviewer's decision and a page must see the same pixels. Pillow's own conversion to RGB saturates levels
of 16 bits to white, shows the colour beneath transparency and ignores the camera's orientation, so no other module calls it; a test
holds that. Pillow is imported when an image is opened, so that importing this module is cheap.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


MAX_PIXELS = 90_000_000
"""Pixels of which a file is read to its end, four bytes each at most; a JPEG's count at the smallest of its scales."""

HASHED = (64, 64)
"""Least size at which a JPEG is decoded for its hash, which looks at 32 x 32 pixels."""

SIDE, ROW, GAP = 320, 4, 6
"""Layout of several images shown side by side: longest side in pixels, images per row, gap in pixels."""


class PictureError(Exception):
    """Error of an unreadable image, in one line; the caller names the image."""


class HugePictureError(PictureError):
    """Error of an image with too many pixels to be decoded."""


@dataclass(frozen=True)
class Facts:
    """Facts from an image file's head: format, size in pixels, transparency, frames."""

    format: str
    width: int
    height: int
    transparent: bool = False
    """True if it can have transparent pixels, which are shown on white."""
    frames: int = 1
    """Frames or pages, of which the first is shown."""


@cache
def formats() -> tuple[str, ...]:
    """Return Pillow's names of readable image formats, frequent ones first.

    They are those that Pillow opens and registers as `image/*`: neither PostScript, which it hands to Ghostscript, nor films or scientific
    containers.
    """
    import PIL.Image

    PIL.Image.init()
    frequent = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
    others = (name for name in sorted(PIL.Image.OPEN) if name not in frequent)
    return tuple(name for name in (*frequent, *others) if PIL.Image.MIME.get(name, "").startswith("image/"))


@cache
def suffixes() -> frozenset[str]:
    """Return the lower-case suffixes (".png") of readable image formats."""
    import PIL.Image

    known = frozenset(formats())
    return frozenset(suffix for suffix, name in PIL.Image.registered_extensions().items() if name in known)


def media_type(data: bytes) -> str:
    """Return an image file's media type ("image/png"), or raise PictureError."""
    import PIL.Image

    return PIL.Image.MIME.get(facts(data).format, "image/jpeg")  # MPO, a JPEG with others behind it, has none of its own


def suffix_of(data: bytes) -> str:
    """Return the usual suffix (".png") for an image file's bytes; "" if no image."""
    try:
        name = media_type(data).partition("/")[2]
    except PictureError:
        return ""
    return {"jpeg": ".jpg", "x-icon": ".ico", "jp2": ".jp2"}.get(name) or f".{name.removeprefix('x-')}"


def to_displayable(data: bytes) -> bytes:
    """Return image bytes that browsers show as models see them: `data`, or a PNG."""
    head = facts(data)
    if head.format in ("JPEG", "PNG", "GIF", "WEBP") and not head.transparent and head.frames == 1:
        return data
    with io.BytesIO() as file:
        decoded(data).save(file, "PNG")
        return file.getvalue()


def is_image_name(name: str) -> bool:
    """Return whether a file name has the suffix of an image format that is read."""
    return Path(name).suffix.lower() in suffixes()


def image_in_text(text: str) -> bytes | None:
    """Return the image bytes in a base64 text or data URI; None for any other text.

    A text that merely could be base64, as many paths could, is none: what it stands for must begin as an image does.
    """
    head, comma, body = text[:200].partition(",")
    is_uri = bool(comma) and head.lstrip().lower().startswith("data:") and head.rstrip().lower().endswith(";base64")
    if not is_uri and not _BASE64_HEAD.match(text):
        return None
    body = text.partition(",")[2] if is_uri else text
    body = "".join(body.split()).translate(_URL_SAFE).rstrip("=")
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
        facts(data)
    except (binascii.Error, ValueError, PictureError):
        return None
    return data


_BASE64_HEAD = re.compile(r"\s*[A-Za-z0-9+/_-]{24}")
_URL_SAFE = str.maketrans("-_", "+/")


def decoded(data: bytes, max_pixels: int | None = None, draft: tuple[int, int] | None = None) -> Image:
    """Return an image file's first frame as upright 8-bit RGB on white; else PictureError.

    Levels of 16 bits are brought to 8 by their upper byte, as Pillow does with 16-bit colours; a camera's note on which side is up is
    followed, as browsers do; of several frames or pages the first counts; transparent pixels are shown on white.

    Args:
        max_pixels: pixels at most; None = what Pillow takes for an attack.
        draft: a JPEG may be decoded in grey, at the smallest of its scales that is no smaller than this.

    Raises:
        HugePictureError: it has more pixels.
        PictureError: it cannot be decoded, or its levels have no known scale.
    """
    from PIL.ImageOps import exif_transpose

    with open_image(io.BytesIO(data)) as picture:
        if max_pixels is not None and picture.width * picture.height > max_pixels:
            raise HugePictureError(f"{picture.width} × {picture.height}")
        if draft is not None:
            picture.draft("L", draft)
        with suppress(Exception):  # a bad orientation is ignored; bad pixels are met when they are read next
            exif_transpose(picture, in_place=True)
        return as_rgb(picture)


def perceptual_hash(data: bytes) -> int | None:
    """Return an image's 64-bit perceptual hash (`phash`) as int; None if undecodable."""
    import imagehash
    import numpy as np

    try:
        bits = imagehash.phash(decoded(data, draft=HASHED)).hash
    except PictureError:
        return None
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def facts(data: bytes) -> Facts:
    """Return the facts in an image file's head, without decoding; else PictureError."""
    with open_image(io.BytesIO(data)) as picture:
        frames = int(getattr(picture, "n_frames", 1))
        return Facts(picture.format or "", picture.width, picture.height, picture.has_transparency_data, frames)


def check(path: Path) -> None:
    """Decode an image file to its end; PictureError if damaged, cut or too large."""
    with open_image(path) as picture:
        _need_scale(picture)
        picture.draft("L", (max(1, picture.width // 8), max(1, picture.height // 8)))  # every bit is read, its pixels are not made
        if picture.width * picture.height > MAX_PIXELS:
            raise HugePictureError(f"{picture.width} × {picture.height}")
        picture.load()


def tile_images(pictures: Sequence[Image]) -> Image:
    """Return one image of small numbered copies in rows; a single image unchanged."""
    import PIL.Image
    from PIL import ImageDraw

    if len(pictures) == 1:
        return pictures[0]
    tiles = []
    for number, picture in enumerate(pictures, 1):
        tile = picture.copy()
        tile.thumbnail((SIDE, SIDE), PIL.Image.Resampling.LANCZOS)
        draw = ImageDraw.Draw(tile)
        box = draw.textbbox((4, 2), str(number))
        draw.rectangle((0, 0, box[2] + 4, box[3] + 3), fill="white")
        draw.text((4, 2), str(number), fill="black")
        tiles.append(tile)
    rows = [tiles[at : at + ROW] for at in range(0, len(tiles), ROW)]
    width = max(sum(t.width for t in row) + GAP * (len(row) - 1) for row in rows)
    heights = [max(t.height for t in row) for row in rows]
    whole = PIL.Image.new("RGB", (width, sum(heights) + GAP * (len(rows) - 1)), "white")
    top = 0
    for row, height in zip(rows, heights, strict=True):
        left = 0
        for tile in row:
            whole.paste(tile, (left, top))
            left += tile.width + GAP
        top += height + GAP
    return whole


@contextmanager
def open_image(source: Path | io.BytesIO) -> Iterator[Image]:
    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(source, formats=formats()) as picture:
                yield picture
    except PictureError:
        raise
    except PIL.Image.DecompressionBombError as error:
        raise HugePictureError(str(error).partition(",")[0]) from error
    except PIL.UnidentifiedImageError as error:
        raise PictureError("not an image in a known format") from error
    except Exception as error:  # Pillow's decoders raise whatever a damaged file leads them to
        line = " ".join(str(error).split()).replace(str(source), "it")
        raise PictureError(line or type(error).__name__) from error


def _need_scale(picture: Image) -> None:
    """Raise PictureError for 32-bit levels except in PGM, since their scale is unknown."""
    if picture.mode == "F" or (picture.mode == "I" and picture.format != "PPM"):
        kind = "whole" if picture.mode == "I" else "real"
        raise PictureError(f"its levels are {kind} numbers of 32 bits, of no known scale; save it with 8 or 16 bits a channel")


def as_rgb(picture: Image) -> Image:
    """Return an opened image's current frame as 8-bit RGB on white; else PictureError."""
    import numpy as np
    import PIL.Image

    _need_scale(picture)
    if picture.mode.startswith("I"):
        levels = np.asarray(picture).astype(np.uint16)
        grey = (levels >> 8).astype(np.uint8)
        grey[levels == picture.info.get("transparency", -1)] = 255
        return PIL.Image.fromarray(grey).convert("RGB")
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    colours = picture.convert("RGBA")
    on_white = PIL.Image.new("RGBA", colours.size, "white")
    on_white.alpha_composite(colours)
    return on_white.convert("RGB")
