import cv2
import numpy as np

from qualm.runners.plugins.inpainters.navier_stokes import navier_stokes
from qualm.runners.plugins.inpainters.telea import telea
from tests.support.data.targets import context, hole, job, noise


def test_it_is_opencvs_method_and_not_the_other():
    picture, mask = noise(30, 24), hole(30, 24)
    (made,) = navier_stokes(context(), radius=4.0)([job(picture, mask)])
    assert (np.asarray(made) == cv2.inpaint(np.asarray(picture), mask.astype(np.uint8), 4.0, cv2.INPAINT_NS)).all()
    (other,) = telea(context(), radius=4.0)([job(picture, mask)])
    assert made.tobytes() != other.tobytes()
