"""JPEG against OpenCV's reading of the same file."""

import numpy as np
from PIL import Image

from qualm.runners.plugins.perturbations.jpeg import jpeg
from tests.support.checks.perturbation_checks import one, picture, rng


def smooth(size=(64, 48)):
    return picture(size=(8, 6)).resize(size, Image.Resampling.BICUBIC)


def test_chroma_at_full_resolution_keeps_colours_nearer():
    pixels = np.asarray(picture(), dtype=float)
    errors = {chroma: np.abs(one(jpeg, picture(), quality=95, chroma=chroma) - pixels).mean() for chroma in ("4:2:0", "4:2:2", "4:4:4")}
    assert errors["4:4:4"] < errors["4:2:2"] < errors["4:2:0"]


def test_is_close_to_opencvs():
    import cv2

    bgr = np.asarray(smooth())[..., ::-1]
    other = cv2.imdecode(cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 30])[1], cv2.IMREAD_COLOR)[..., ::-1]
    assert np.abs(one(jpeg, smooth(), quality=30).astype(int) - other).mean() < 1.0


def test_a_picture_that_no_jpeg_can_hold_does_not_apply():
    assert jpeg([Image.new("RGB", (70_000, 1)), picture()], [rng(), rng()])[0] is None
