"""The only place where picture files are opened, and where it is decided what their pixels are.

A model, a perceptual hash, a reviewer's decision and a page must see the same pixels. Pillow's own conversion to RGB saturates levels
of 16 bits to white and leaves photographs lying on their side, so it is used nowhere else; a test holds that. Pillow is imported
when a picture is opened, so that importing this file is cheap.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


MOST_LOADED = 90_000_000
"""Pixels of which a file is read to its end, four bytes each at most; a JPEG's count at the smallest of its scales."""


SIDE, ROW, GAP = 320, 4, 6
"""Of several pictures shown together: pixels of a side at most, pictures in a row, pixels between them."""


class PictureError(Exception):
    """What is wrong with a picture, in one line; the caller says which."""


class HugePictureError(PictureError):
    """A picture of so many pixels that it must be an attack."""


@dataclass(frozen=True)
class Facts:
    """What the head of a picture's file says of it."""

    format: str
    width: int
    height: int


def decoded(data: bytes, most: int | None = None, draft: tuple[int, int] | None = None) -> Image:
    """A picture as RGB of 8 bits, upright.

    Levels of 16 bits are brought to 8 by their upper byte, as Pillow does with 16-bit colours; a camera's note on which side is up is
    followed, as browsers do; of several frames the first counts; transparency is left out and shows the colour beneath it.

    Args:
        data: the file.
        most: pixels at most; None = what Pillow takes for an attack.
        draft: a JPEG may be decoded in grey, at the smallest of its scales that is no smaller than this.

    Raises:
        HugePictureError: it has more pixels.
        PictureError: it cannot be decoded, or its levels have no known scale.
    """
    with opened(io.BytesIO(data)) as picture:
        if most is not None and picture.width * picture.height > most:
            raise HugePictureError(f"{picture.width} × {picture.height}")
        if draft is not None:
            picture.draft("L", draft)
        _turn(picture)
        return _rgb(picture)


def facts(data: bytes) -> Facts:
    """Return format and size of an image without decoding it.

    Raises:
        PictureError: it is not an image, or a huge one.
    """
    with opened(io.BytesIO(data)) as picture:
        return Facts(picture.format or "", picture.width, picture.height)


def check(path: Path) -> None:
    """Read an image file to its end.

    Raises:
        PictureError: it is not an image, is cut short or damaged, or is huge.
    """
    with opened(path) as picture:
        picture.draft("L", (max(1, picture.width // 8), max(1, picture.height // 8)))  # every bit is read, its pixels are not made
        if picture.width * picture.height > MOST_LOADED:
            raise HugePictureError(f"{picture.width} × {picture.height}")
        picture.load()


def beside(pictures: Sequence[Image]) -> Image:
    """Pictures in rows of at most ROW, each brought down to SIDE and with its number in a corner; a single one as it is."""
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
def opened(source: Path | io.BytesIO) -> Iterator[Image]:
    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(source) as picture:
                yield picture
    except PictureError:
        raise
    except PIL.Image.DecompressionBombError as error:
        raise HugePictureError(str(error).partition(",")[0]) from error
    except PIL.UnidentifiedImageError as error:
        raise PictureError("not a picture in a known format") from error
    except Exception as error:  # Pillow's decoders raise whatever a damaged file leads them to
        line = " ".join(str(error).split()).replace(str(source), "it")
        raise PictureError(line or type(error).__name__) from error


def _turn(picture: Image) -> None:
    """Upright, where the camera noted how it was held; a note that cannot be read is ignored."""
    from PIL.ImageOps import exif_transpose

    with suppress(Exception):  # what is wrong with the pixels themselves is met when they are read next
        exif_transpose(picture, in_place=True)


def _rgb(picture: Image) -> Image:
    import numpy as np
    import PIL.Image

    levels_of_16_bits = picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format == "PPM")  # which scales to 65,535
    if levels_of_16_bits:
        levels = np.asarray(picture).astype(np.uint16) >> 8
        return PIL.Image.fromarray(levels.astype(np.uint8)).convert("RGB")
    if picture.mode in ("I", "F"):
        kind = "whole" if picture.mode == "I" else "real"
        raise PictureError(f"its levels are {kind} numbers of 32 bits, of no known scale; save it with 8 or 16 bits a channel")
    return picture.convert("RGB")
