"""Thumbnails: images are decoded and re-encoded before people see them, and huge ones are refused."""

import base64
import io
from collections.abc import Sequence

from PIL.Image import Image

from qualm.registry.formats import pictures
from qualm.registry.formats.pictures import tile_images
from qualm.runners.reporting import sentences as say

MAX_PIXELS = 64_000_000


def decoded(data: bytes | None) -> tuple[Image | None, str]:
    """Return (decoded image, ""), or (None, reason) if it is missing, broken or too large."""
    if data is None:
        return None, say.IMAGE_NOT_FOUND
    try:
        return pictures.decoded(data, MAX_PIXELS), ""
    except pictures.HugePictureError as error:
        return None, say.IMAGE_TOO_LARGE.format(error=error)
    except pictures.PictureError as error:
        return None, say.IMAGE_UNREADABLE.format(error=error)


def decode_side_by_side(files: Sequence[bytes | None]) -> tuple[Image | None, str]:
    """Return (one image of a question's images, numbered, ""), or (None, why not)."""
    drawn = [decoded(data) for data in files or [None]]
    if why := next((why for picture, why in drawn if picture is None), ""):
        return None, why
    return tile_images([picture for picture, _ in drawn if picture is not None]), ""


def small(picture: Image, side: int) -> str:
    """Return an image as a JPEG data URI, its longer side reduced to at most `side` pixels."""
    from PIL import Image

    picture = picture.copy()
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    jpeg = io.BytesIO()
    picture.save(jpeg, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(jpeg.getvalue()).decode()
