import cv2
import numpy as np

from qualm.runners.plugins.inpainters.telea import telea
from tests.support.data.targets import context, hole, job, noise


def test_it_is_opencvs_method_at_the_given_radius():
    picture, mask = noise(30, 24), hole(30, 24)
    for radius in (1.0, 3.0, 7.5):
        (made,) = telea(context(), radius=radius)([job(picture, mask)])
        expected = cv2.inpaint(np.asarray(picture), mask.astype(np.uint8) * 255, radius, cv2.INPAINT_TELEA)
        assert (np.asarray(made) == expected).all()
