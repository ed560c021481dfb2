import base64
import io

import PIL.Image
import pytest

from qualm.runners.reporting import thumbnails
from qualm.runners.reporting.thumbnails import decode_side_by_side, decoded, small


def png(width=40, height=20, colour=(200, 10, 10)):
    data = io.BytesIO()
    PIL.Image.new("RGB", (width, height), colour).save(data, "PNG")
    return data.getvalue()


def test_a_picture_that_may_be_shown():
    picture, why = decoded(png())
    assert picture.size == (40, 20) and why == ""


@pytest.mark.parametrize("data, why", [(None, "image not found"), (b"no image", "image not readable"), (png()[:60], "image not readable")])
def test_why_there_is_none(data, why):
    picture, reason = decoded(data)
    assert picture is None and reason.startswith(why)


def test_a_picture_that_is_too_large(monkeypatch):
    monkeypatch.setattr(thumbnails, "MAX_PIXELS", 799)
    assert decoded(png())[1].startswith("image too large to show")
    monkeypatch.setattr(thumbnails, "MAX_PIXELS", 800)
    assert decoded(png())[1] == ""


@pytest.mark.parametrize("side, size", [(10, (10, 5)), (100, (40, 20))])
def test_the_longer_side_is_brought_down_and_never_up(side, size):
    picture = decoded(png())[0]
    uri = small(picture, side)
    made = PIL.Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"))))
    assert (
        made.size == size
        and picture.size == (40, 20)
        and all(abs(a - b) < 8 for a, b in zip(made.getpixel((2, 2)), (200, 10, 10), strict=True))
    )


def test_of_several_pictures_the_one_that_cannot_be_shown_is_told():
    assert decode_side_by_side([png(), None]) == (None, "image not found") and decode_side_by_side([]) == (None, "image not found")
    assert decode_side_by_side([png(), png()])[0].width > decode_side_by_side([png()])[0].width
