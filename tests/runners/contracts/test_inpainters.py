import cv2
import numpy as np
import PIL.Image
import pytest

from qualm.runners.contracts.inpainters import Job, inpaint_by_opencv

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
MASK = np.zeros((20, 24), bool)
MASK[5:9, 7:12] = True


@pytest.mark.parametrize("method, flag", [("telea", cv2.INPAINT_TELEA), ("navier_stokes", cv2.INPAINT_NS)])
def test_each_method_is_opencvs_whatever_the_order_of_channels(method, flag):
    painted = np.asarray(inpaint_by_opencv(Job(None, None, PIL.Image.fromarray(PIXELS), MASK), 3.0, method))
    expected = cv2.inpaint(np.ascontiguousarray(PIXELS[..., ::-1]), MASK.astype(np.uint8) * 255, 3.0, flag)[..., ::-1]
    assert (painted == expected).all()
    assert (painted[~MASK] == PIXELS[~MASK]).all() and (painted[MASK] != PIXELS[MASK]).any()
